#include "base/secrets.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text.h"

namespace mfu {

namespace {

constexpr std::string_view kHidden = "[hidden]";
constexpr std::size_t kNpos = std::string_view::npos;

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
constexpr bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
constexpr bool is_alnum(char c) {
  return is_digit(c) || is_upper(c) || is_lower(c);
}
constexpr bool is_word(char c) {
  return is_alnum(c) || c == '_' || c == '-';
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The form of the keys of one issuer: what they begin with, and how many letters and digits follow
// in a row at least. Names of models and packages have fewer.
struct Form {
  std::string_view start;
  std::size_t run;
  std::string_view kind;
};
constexpr Form kForms[] = {
    {"hf_", 28, "a Hugging Face token"},
    {"api_org_", 28, "a Hugging Face token"},
    {"sk-", 16, "an API key"},  // OpenAI, Anthropic, DeepSeek, OpenRouter and others
    {"sk_live_", 16, "a Stripe key"},
    {"rk_live_", 16, "a Stripe key"},
    {"ghp_", 30, "a GitHub token"},
    {"gho_", 30, "a GitHub token"},
    {"ghu_", 30, "a GitHub token"},
    {"ghs_", 30, "a GitHub token"},
    {"ghr_", 30, "a GitHub token"},
    {"github_pat_", 20, "a GitHub token"},
    {"glpat-", 16, "a GitLab token"},
    {"AKIA", 16, "an AWS access key"},
    {"ASIA", 16, "an AWS access key"},
    {"AIza", 20, "a Google API key"},
    {"ya29.", 20, "a Google access token"},
    {"xoxb-", 9, "a Slack token"},
    {"xoxp-", 9, "a Slack token"},
    {"xoxa-", 9, "a Slack token"},
    {"npm_", 30, "an npm token"},
    {"pypi-AgEI", 20, "a PyPI token"},
    {"dop_v1_", 30, "a DigitalOcean token"},
    {"SG.", 16, "a SendGrid key"},
    {"nvapi-", 20, "an NVIDIA API key"},
    {"gsk_", 30, "a Groq API key"},
    {"r8_", 30, "a Replicate token"},
    {"wandb_v1_", 20, "a Weights & Biases key"},
    {"hvs.", 20, "a Vault token"},
    {"xai-", 40, "an xAI key"},
    {"pplx-", 40, "a Perplexity key"},
    {"shpat_", 30, "a Shopify token"},
    {"dckr_pat_", 20, "a Docker token"},
    {"AGE-SECRET-KEY-1", 40, "an age key"},
    {"tskey-", 16, "a Tailscale key"},
};

// What to do at a byte. Nearly all bytes are passed over after one look at a table.
enum Look : std::uint8_t { pass, word, separator, start };

constexpr auto kLooks = [] {
  std::array<Look, 256> looks{};
  for (unsigned c = 0; c < 256; ++c) looks[c] = is_word(static_cast<char>(c)) ? word : pass;
  for (const Form& form : kForms) looks[static_cast<unsigned char>(form.start[0])] = start;
  for (char c : {'-', 'e', 'B'}) looks[static_cast<unsigned char>(c)] = start;
  for (char c : {'=', ':'}) looks[static_cast<unsigned char>(c)] = separator;
  return looks;
}();

Look look_of(char c) {
  return kLooks[static_cast<unsigned char>(c)];
}

std::size_t end_of_word(std::string_view text, std::size_t at) {
  while (at < text.size() && (is_word(text[at]) || text[at] == '.')) ++at;
  while (at > 0 && text[at - 1] == '.') --at;  // the end of a sentence
  return at;
}

// A key by its own form, at the start of a word.
std::optional<Secret> form_at(std::string_view text, std::size_t at) {
  for (const Form& form : kForms) {
    if (text[at] != form.start[0] || !text.substr(at).starts_with(form.start)) continue;
    std::size_t end = end_of_word(text, at + form.start.size());
    std::size_t run = 0, longest = 0;
    bool digit = false;
    for (std::size_t i = at + form.start.size(); i < end; ++i) {
      run = is_alnum(text[i]) ? run + 1 : 0;
      longest = std::max(longest, run);
      digit = digit || is_digit(text[i]);
    }
    if (longest >= form.run && digit) return Secret{at, end - at, form.kind};
  }
  return std::nullopt;
}

// header.payload.signature, each in base64url. The first two are JSON objects, and {" is eyJ.
std::optional<Secret> web_token_at(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with("eyJ")) return std::nullopt;
  std::size_t end = end_of_word(text, at), first = text.find('.', at);
  if (first == kNpos || first >= end || !text.substr(first + 1).starts_with("eyJ")) {
    return std::nullopt;
  }
  if (text.find('.', first + 1) >= end) return std::nullopt;
  return Secret{at, end - at, "a JSON web token"};
}

bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f');
}

// scheme://user:password@host, and scheme://KEY@host (the address of a Sentry project).
std::optional<Secret> url_password_at(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with("://")) return std::nullopt;
  std::size_t user = at + 3;
  std::size_t end = text.find_first_of("/ \t\n\r\"'<>?#", user);
  std::string_view authority = text.substr(user, end == kNpos ? kNpos : end - user);
  std::size_t host = authority.rfind('@'), colon = authority.find(':');
  if (host == kNpos) return std::nullopt;
  if (colon > host && host >= 32 && std::all_of(&authority[0], &authority[host], is_hex)) {
    return Secret{user, host, "a key in a URL"};
  }
  if (colon == kNpos || colon + 1 >= host) return std::nullopt;
  std::string_view password = authority.substr(colon + 1, host - colon - 1);
  if (password[0] == '$' || password == kHidden) return std::nullopt;
  if (!find_secrets(authority.substr(0, colon)).empty()) {
    return Secret{user, host, "a token in a URL"};  // TOKEN:x-oauth-basic@
  }
  return Secret{user + colon + 1, password.size(), "a password in a URL"};
}

// https://hooks.slack.com/services/…: anybody who has the address may post.
std::optional<Secret> webhook_at(std::string_view text, std::size_t at) {
  for (std::string_view address :
       {"://hooks.slack.com/services/", "://discord.com/api/webhooks/"}) {
    if (!text.substr(at).starts_with(address)) continue;
    std::size_t from = at + address.size();
    std::size_t to = std::min(text.find_first_of(" \t\n\r\"'<>", from), text.size());
    if (to > from && text[from] != kHidden[0]) return Secret{from, to - from, "a webhook"};
  }
  return std::nullopt;
}

std::optional<Secret> private_key_at(std::string_view text, std::size_t at) {
  constexpr std::string_view kBegin = "-----BEGIN ", kKey = "PRIVATE KEY-----";
  if (!text.substr(at).starts_with(kBegin)) return std::nullopt;
  std::size_t title = text.substr(at, 64).find(kKey);
  if (title == kNpos) return std::nullopt;
  std::string_view type = text.substr(at + kBegin.size(), title - kBegin.size());  // "RSA "
  auto is_title = [](char c) { return is_upper(c) || c == ' '; };
  if (!std::all_of(type.begin(), type.end(), is_title)) return std::nullopt;
  std::size_t begin = at + title + kKey.size(), end = text.find("-----END", begin);
  std::size_t size = (end == kNpos ? text.size() : end) - begin;
  return size > 0 ? std::optional(Secret{begin, size, "a private key"}) : std::nullopt;
}

// "HF_TOKEN", "--api-key" and "accessToken" as words in lower case.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    char c = name[i];
    bool hump = is_upper(c) && i > 0 && is_alnum(name[i - 1]) && !is_upper(name[i - 1]);
    if ((!is_alnum(c) || hump) && !words.back().empty()) words.emplace_back();
    if (is_alnum(c)) words.back() += to_lower(std::string_view(&c, 1));
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

enum class Name { plain, token, credential, password };

Name name_kind(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kPasswords = {
      "password", "passwd", "passphrase", "passcode", "pwd", "pw", "secret", "secrets", "userpwd"};
  static constexpr std::array<std::string_view, 16> kKeys = {
      "api",   "access",       "secret",  "private", "account", "encryption", "signing", "auth",
      "wandb", "subscription", "license", "shared",  "storage", "service",    "master",  "ssh"};
  // DB_PASS is a password, but other passes are forward passes or first passes.
  static constexpr std::array<std::string_view, 16> kAccounts = {
      "db",   "database", "user", "admin", "root",     "smtp", "mail",  "ftp",
      "sftp", "mysql",    "pg",   "redis", "postgres", "http", "proxy", "login"};
  static constexpr std::array<std::string_view, 12> kWritten = {
      // written without a separator
      "dbpass",      "sshpass",   "keypass",   "storepass",  "apitoken",     "authtoken",
      "accesstoken", "secretkey", "accesskey", "privatekey", "clientsecret", "hftoken"};
  // Tokens of a vocabulary, and counts of tokens. They are nobody's credentials.
  static constexpr std::array<std::string_view, 26> kSpecial = {
      "pad",   "eos",  "bos",    "unk",     "sep",  "cls",    "mask",    "image",   "video",
      "audio", "stop", "next",   "first",   "last", "start",  "end",     "special", "forced",
      "boi",   "eoi",  "prompt", "decoder", "per",  "target", "current", "new"};
  // Keys of a table, a record or a batch.
  static constexpr std::array<std::string_view, 21> kPlainKeys = {
      "cache",  "sort",  "primary", "foreign", "dict",   "state", "data",
      "image",  "text",  "label",   "input",   "group",  "batch", "metric",
      "target", "index", "column",  "field",   "public", "hot",   "host"};
  std::vector<std::string> words = words_of(name);
  if (words.empty()) return Name::plain;
  if (words.size() > 1 && words.back() == "id") {  // AWS_ACCESS_KEY_ID; a token's id is a number
    words.pop_back();
    if (words.back() != "key") return Name::plain;
  }
  const std::string& last = words.back();
  std::string_view before = words.size() > 1 ? std::string_view(words[words.size() - 2]) : "";
  if (name == "PWD" || name == "OLDPWD") return Name::plain;
  if (is_one_of(last, kPasswords) || last.ends_with("password")) return Name::password;
  if (last == "pass" && is_one_of(before, kAccounts)) return Name::password;
  if (is_one_of(last, kWritten)) return Name::credential;
  if (last == "apikey" || (last == "key" && is_one_of(before, kKeys))) return Name::credential;
  if (last == "credential" || last == "credentials" || last == "authorization") {
    return Name::credential;
  }
  if (last == "cookie" || last == "sas" || last == "sig") return Name::token;
  if (last == "signature" && before == "amz") return Name::token;
  if (last == "webhook" || last == "dsn") return Name::token;
  if (last == "url" && before == "webhook") return Name::token;
  // KAGGLE_KEY and --report-key are credentials. A cache_key in a program is not.
  bool asked = name.starts_with("--") || std::none_of(name.begin(), name.end(), is_lower);
  if (last == "key" && asked && !before.empty() && !is_one_of(before, kPlainKeys)) {
    return Name::token;
  }
  if (last == "auth" || last == "bearer" || last == "jwt") return Name::token;
  return last == "token" && !is_one_of(before, kSpecial) ? Name::token : Name::plain;
}

bool is_placeholder(std::string_view value) {
  static constexpr std::array<std::string_view, 22> kWords = {
      "true",   "false", "none",  "null",     "yes", "no",     "on",     "off",
      "str",    "int",   "bytes", "bool",     "any", "string", "object", "self",
      "bearer", "basic", "token", "optional", "env", "-"};
  if (value.empty() || value.find(kHidden.substr(0, kHidden.size() - 1)) != kNpos) return true;
  if (value.find_first_not_of(value[0]) == kNpos) return true;  // ****, xxxx
  if (std::string_view("$<{%(").find(value[0]) != kNpos) return true;
  return is_one_of(to_lower(value), kWords);
}

bool is_path(std::string_view value) {
  if (value[0] == '/' || value[0] == '~' || value[0] == '.') return true;
  for (std::string_view ending : {".json", ".pem", ".key", ".txt", ".yaml", ".yml", ".env"}) {
    if (value.ends_with(ending)) return true;
  }
  return false;
}

// A quick test before words_of(): nearly all names end in none of these words.
bool may_name_secret(std::string_view name) {
  while (!name.empty() && !is_alnum(name.back())) name.remove_suffix(1);
  static constexpr std::array<std::string_view, 25> kEndings = {
      "token",      "key",         "password",      "passwd",   "pwd",  "secret", "secrets",
      "credential", "credentials", "authorization", "cookie",   "sas",  "sig",    "signature",
      "auth",       "bearer",      "passphrase",    "passcode", "pass", "id",     "pw",
      "jwt",        "webhook",     "dsn",           "url"};
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) {
    if (name.size() < ending.size()) return false;
    std::string_view tail = name.substr(name.size() - ending.size());
    return std::equal(tail.begin(), tail.end(), ending.begin(),
                      [](char a, char b) { return (is_upper(a) ? a - 'A' + 'a' : a) == b; });
  });
}

// name=value, name: value, or "name": "value". `at` is the place of '=' or ':'.
std::optional<Secret> named_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end > 0 && (text[end - 1] == '"' || text[end - 1] == '\'' || text[end - 1] == ' ')) --end;
  std::size_t begin = end;
  while (begin > 0 && (is_word(text[begin - 1]) || text[begin - 1] == '.')) --begin;
  std::string_view name = text.substr(begin, end - begin);
  if (!may_name_secret(name)) return std::nullopt;
  std::size_t from = at + 1;
  while (from < text.size() && is_blank(text[from]) && text[from] != '\n') ++from;
  char quote = from < text.size() && (text[from] == '"' || text[from] == '\'') ? text[from] : 0;
  if (quote != 0) ++from;
  // "Authorization: Bearer KEY": the word names the scheme, and the key comes after it.
  for (std::string_view way : {"Bearer ", "bearer ", "Basic ", "basic ", "Token ", "token "}) {
    if (text.substr(from).starts_with(way)) from += way.size();
  }
  std::size_t to =
      quote != 0 ? text.find(quote, from) : text.find_first_of(" \t\r\n\"'&;,)}]", from);
  std::string_view value = text.substr(from, to == kNpos ? kNpos : to - from);
  std::optional<std::string_view> kind = secret_behind(name, value);
  return kind ? std::optional(Secret{from, value.size(), *kind}) : std::nullopt;
}

// "Bearer KEY" by itself.
std::optional<Secret> bearer_at(std::string_view text, std::size_t at) {
  constexpr std::string_view kWord = "Bearer ";
  if (!text.substr(at).starts_with(kWord)) return std::nullopt;
  std::size_t from = at + kWord.size(), to = end_of_word(text, from);
  std::string_view value = text.substr(from, to - from);
  if (value.size() < 16 || value.find_first_of("0123456789") == kNpos) return std::nullopt;
  return Secret{from, value.size(), "a bearer token"};
}

// "--api-key KEY" inside a command that is one text: sh -c "python train.py --api-key KEY".
std::optional<Secret> option_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && (is_word(text[end]) || text[end] == '.')) ++end;
  std::string_view name = text.substr(at, end - at);
  if (end == text.size() || text[end] != ' ' || !may_name_secret(name)) return std::nullopt;
  std::size_t from = std::min(text.find_first_not_of(' ', end), text.size());
  char quote = from < text.size() && (text[from] == '"' || text[from] == '\'') ? text[from] : 0;
  if (quote != 0) ++from;
  std::size_t to = quote != 0 ? text.find(quote, from) : text.find_first_of(" \t\r\n\"';|&", from);
  std::string_view value = text.substr(from, to == kNpos ? kNpos : to - from);
  if (value.starts_with('-')) return std::nullopt;  // another option
  std::optional<std::string_view> kind = secret_behind(name, value);
  return kind ? std::optional(Secret{from, value.size(), *kind}) : std::nullopt;
}

// At a separator or at the start of a word.
std::optional<Secret> secret_at(std::string_view text, std::size_t at) {
  char c = text[at];
  if (c == '=') return named_at(text, at);
  if (c == ':') {
    std::optional<Secret> found = url_password_at(text, at);
    if (!found) found = webhook_at(text, at);
    return found ? found : named_at(text, at);
  }
  if (c == '-') {
    std::optional<Secret> found = private_key_at(text, at);
    return found ? found : option_at(text, at);
  }
  if (c == 'e') return web_token_at(text, at);
  if (c == 'B') return bearer_at(text, at);
  return form_at(text, at);
}

bool calls(const std::vector<std::string>& command, std::size_t before, std::string_view names) {
  auto is_named = [&](const std::string& word) {
    std::string_view name = std::string_view(word).substr(word.rfind('/') + 1);
    return !name.empty() &&
           (" " + std::string(names) + " ").find(" " + std::string(name) + " ") != kNpos;
  };
  return std::any_of(command.begin(), command.begin() + static_cast<std::ptrdiff_t>(before),
                     is_named);
}

// "-u me:password", as for curl. For containers, it is a user and a group instead.
bool is_user_password(const std::vector<std::string>& command, std::size_t at) {
  if (command[at] != "-u" && command[at] != "--user") return false;
  std::string_view value = command[at + 1];
  std::size_t colon = value.find(':');
  if (colon == kNpos || colon == 0 || value.find("://") != kNpos) return false;
  std::string_view password = value.substr(colon + 1);
  bool number = password.find_first_not_of("0123456789") == kNpos;
  return !number && !calls(command, at, "docker podman nerdctl chown");
}

// Whether the next word is a secret value: "--api-key KEY", "trainer.logger.token KEY".
bool takes_secret(const std::vector<std::string>& command, std::size_t at) {
  const std::string &word = command[at], &value = command[at + 1];
  bool option = word.starts_with('-') || (word.find('.') != kNpos && word.find('/') == kNpos);
  option = !word.empty() && option && word.find('=') == kNpos;
  if (option && !value.starts_with('-') && secret_behind(word, value)) return true;
  if (word == "login" && value.size() >= 32 && std::all_of(value.begin(), value.end(), is_hex)) {
    return true;  // wandb login KEY
  }
  if (at > 0 && command[at - 1].ends_with("sshpass") && word == "-p") return true;
  return is_user_password(command, at);
}

// mysql -pPASSWORD
bool is_joined_password(const std::vector<std::string>& command, std::size_t at) {
  return command[at].starts_with("-p") && command[at].size() > 2 &&
         calls(command, at, "mysql mysqldump mysqladmin mariadb mariadb-dump");
}

}  // namespace

std::optional<std::string_view> secret_behind(std::string_view name, std::string_view value) {
  Name kind = may_name_secret(name) ? name_kind(name) : Name::plain;
  value = trim(value);
  if (kind == Name::plain || is_placeholder(value)) return std::nullopt;
  switch (kind) {
    case Name::password:
      return "a password";
    case Name::credential:
      return is_path(value) ? std::nullopt : std::optional<std::string_view>("a key");
    default:
      break;
  }
  bool digit = value.find_first_of("0123456789=") != kNpos;  // base64 may end in =
  bool number = value.find_first_not_of("0123456789.,-+e") == kNpos;
  bool random = !number && !is_path(value) && (value.size() >= 20 || (value.size() >= 8 && digit));
  return random ? std::optional<std::string_view>("a token") : std::nullopt;
}

std::vector<Secret> find_secrets(std::string_view text) {
  std::vector<Secret> found;
  Look before = pass;
  for (std::size_t at = 0; at < text.size();) {
    Look look = look_of(text[at]);
    // A key may come after an underscore or a dash: model_hf_…, trace-hf_…
    bool joined = at > 0 && (text[at - 1] == '_' || (text[at - 1] == '-' && text[at] != '-'));
    bool inside = (before == word || before == start) && !joined;
    before = look;
    std::optional<Secret> secret;
    if (look == separator || (look == start && !inside)) secret = secret_at(text, at);
    if (!secret) {
      ++at;
      continue;
    }
    found.push_back(*secret);
    at = secret->begin + secret->size;
    before = look_of(text[at - 1]);
  }
  return found;
}

std::string without_secrets(std::string_view text) {
  std::string safe;
  std::size_t at = 0;
  for (const Secret& secret : find_secrets(text)) {
    safe += text.substr(at, secret.begin - at);
    safe += kHidden;
    at = secret.begin + secret.size;
  }
  return safe += text.substr(at);
}

std::vector<std::string> without_secrets(const std::vector<std::string>& command) {
  std::vector<std::string> safe;
  for (std::size_t i = 0; i < command.size(); ++i) {
    bool hidden = i > 0 && takes_secret(command, i - 1);
    if (!hidden && is_joined_password(command, i))
      safe.push_back("-p" + std::string(kHidden));
    else
      safe.push_back(hidden ? std::string(kHidden) : without_secrets(command[i]));
  }
  return safe;
}

}  // namespace mfu
