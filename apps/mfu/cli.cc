#include "cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "help.h"
#include "terminal.h"

namespace mfu::app {

namespace {

constexpr const char* kVersionLine = "mfu " MFU_VERSION " (" MFU_BUILD_TYPE ", " __VERSION__ ")";

void add_global_options(CLI::App& root, bool& json, std::map<std::string, std::string>& flags) {
  root.set_help_flag("-h,--help", "Show this help, with examples");
  root.add_flag("--json", json,
                "Print one JSON object on standard output, also for an error (docs/formats/)");
  for (const SettingKey& key : setting_keys()) {
    auto set = [&flags, name = key.key](const std::string& value) { flags[name] = value; };
    CLI::Option* option = root.add_option_function<std::string>("--" + key.key, set, key.meaning);
    option->type_name(key.key == "color" ? "WHEN" : key.key == "width" ? "COLUMNS" : "PATH");
    if (key.key == "color") option->check(CLI::IsMember({"auto", "always", "never"}));
  }
  root.set_version_flag("--version", kVersionLine, "Show the version and the build");
}

// The names to compare an unknown word with.
std::vector<std::string> known_words(const CLI::App& app, bool options) {
  std::vector<std::string> words;
  for (const CLI::App* each = &app; each != nullptr; each = each->get_parent()) {
    for (const OptionText& option : options_of(*each)) {
      if (options && !option.long_name.empty()) words.push_back("--" + option.long_name);
    }
  }
  if (!options) {
    for (const CLI::App* sub : app.get_subcommands({})) words.push_back(sub->get_name());
  }
  return words;
}

const CLI::App& deepest(const CLI::App& root) {
  std::vector<CLI::App*> parsed = const_cast<CLI::App&>(root).get_subcommands();
  return parsed.empty() ? root : *parsed.back();
}

// CLI11 keeps the words that it could not place. Its other messages are readable as they are.
std::string explain(const CLI::App& root, const CLI::ParseError& problem) {
  std::vector<std::string> extras = root.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&problem) == nullptr || extras.empty())
    return problem.what();
  const CLI::App& app = deepest(root);
  const std::string& word = extras[0];
  bool option = word.starts_with('-');
  std::string told = option          ? fmt::format("there is no option {}", word)
                     : &app == &root ? fmt::format("there is no command '{}'", word)
                                     : fmt::format("there is one argument too many: '{}'", word);
  std::vector<std::string> near = closest(word, known_words(app, option), 2);
  if (!near.empty()) told += fmt::format("; did you mean {}?", fmt::join(near, " or "));
  return told;
}

}  // namespace

CLI::Validator whole_number() {
  auto check = [](std::string& text) -> std::string {
    bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    bool good = digits && text.size() < 16 && text.find_first_not_of('0') != std::string::npos;
    return good ? "" : "'" + text + "' is not a whole number above 0";
  };
  return CLI::Validator(check, "");
}

const std::vector<SettingKey>& setting_keys() {
  static const std::vector<SettingKey> kKeys = {
      {"color", "MFU_COLOR", "auto", "When to use colour"},
      {"catalog", "MFU_CATALOG", "",
       "CSV file with your own devices; they are looked up before the built-in ones"},
      {"python", "MFU_PYTHON", "",
       "Python interpreter whose PyTorch is used (default: the active environment's, else "
       "python3)"},
      {"width", "MFU_WIDTH", "",
       "Width of the output in columns (default: as wide as the terminal)"},
  };
  return kKeys;
}

void Context::set_output(bool json, const TextStyle& style) {
  json_ = json;
  style_ = style;
}

void Context::print(const std::string& text) const {
  // The text may hold anything that stood in a file, so it is cleaned. JSON is escaped already.
  std::fputs(json_ ? text.c_str() : terminal_text(text, style_).c_str(), stdout);
  if (!text.empty() && text.back() != '\n') std::fputc('\n', stdout);
}

void Context::print_text(const std::string& text) const {
  print(json_ ? text_to_json(text) : text);
}

void Context::warn(const std::string& text) const {
  std::fputs(("mfu: " + terminal_text(text, {}) + "\n").c_str(), stderr);
}

void Context::warn(const Diagnostics& diagnostics) const {
  for (const std::string& warning : diagnostics.warnings()) warn(warning);
}

const Catalog& Context::catalog() {
  const std::string& path = settings_.value("catalog");
  if (path.empty()) return Catalog::builtin();
  if (catalog_) return *catalog_;
  Result<Catalog> mine = Catalog::open(path);
  if (!mine.has_value()) {
    warn(mine.error().message + ". Your catalogue is ignored; the built-in one is used.");
  }
  catalog_ = mine.has_value() ? Catalog::builtin().with(*mine) : Catalog::builtin();
  return *catalog_;
}

std::string Context::python() const {
  const std::string& named = settings_.value("python");
  if (!named.empty()) return named;
  for (const char* environment : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* folder = std::getenv(environment);
    if (folder == nullptr || *folder == 0) continue;
    std::string python = fmt::format("{}/bin/python", folder);
    if (::access(python.c_str(), X_OK) == 0) return python;
  }
  const char* own = std::getenv("MFU_OWN_PYTHON");
  return own != nullptr && *own != 0 ? own : "python3";
}

Result<void> check_values(const Settings& settings) {
  const Setting& color = settings.setting("color");
  if (color.value != "auto" && color.value != "always" && color.value != "never") {
    return fail(ErrorCode::malformed,
                fmt::format("{}: color is '{}', but must be auto, always or never", color.origin,
                            color.value));
  }
  const Setting& width = settings.setting("width");
  if (width.value.find_first_not_of("0123456789") != std::string::npos || width.value.size() > 5) {
    return fail(ErrorCode::malformed,
                fmt::format("{}: width is '{}', but must be a number of columns", width.origin,
                            width.value));
  }
  return {};
}

int Cli::report(const Error& error) const {
  if (json_) {
    std::puts(to_json(error).c_str());
  } else {
    std::fputs(("mfu: " + terminal_text(error.message, {}) + "\n").c_str(), stderr);
  }
  return kMisuse;
}

int Cli::misuse(const CLI::App& root, const CLI::ParseError& problem) const {
  const CLI::App& app = deepest(root);
  std::string where = &app == &root ? "mfu" : "mfu " + app.get_name();
  std::string told = explain(root, problem);
  return report({ErrorCode::invalid_argument,
                 fmt::format("{}{} See {} --help.", told, told.ends_with('?') ? "" : ".", where)});
}

int Cli::execute(CLI::App& root) {
  std::vector<CLI::App*> parsed = root.get_subcommands();
  Result<Settings> settings = Settings::resolve(setting_keys(), flags_, settings_path());
  Result<void> values = settings.has_value() ? check_values(*settings) : Failure{settings.error()};
  bool doctor = !parsed.empty() && parsed[0]->get_name() == "doctor";
  if (!values.has_value() && !doctor) return report(values.error());
  if (!settings.has_value()) settings = Settings::resolve(setting_keys(), flags_, "/dev/null");
  TextStyle style = terminal_style(settings->value("color"));
  long columns = std::strtol(settings->value("width").c_str(), nullptr, 10);
  if (columns > 0) style.width = static_cast<std::size_t>(std::clamp(columns, 40L, 1000L));
  Context context(*settings, commands_, root);
  context.set_output(json_, style);
  if (!values.has_value()) context.set_settings_problem(values.error().message);
  if (parsed.empty()) {
    context.print_text(root_help(commands_, root, style));
    return kGood;
  }
  for (Command& command : commands_) {
    if (command.text.name != parsed[0]->get_name()) continue;
    Result<int> status = command.run(context);
    if (!status.has_value()) return report(status.error());
    return *status;
  }
  return kMisuse;
}

int Cli::dispatch(CLI::App& root, int argc, char** argv) {
  auto show = [&](const std::string& text) {
    for (int i = 1; i < argc; ++i) json_ = json_ || std::string_view(argv[i]) == "--json";
    std::fputs((json_ ? text_to_json(text) + "\n" : text).c_str(), stdout);
  };
  try {
    root.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    TextStyle style = terminal_style("auto");
    const CLI::App& app = deepest(root);
    for (const Command& command : commands_) {
      if (app.get_name() == command.text.name) show(command_help(command.text, app, root, style));
    }
    if (&app == &root) show(root_help(commands_, root, style));
    return kGood;
  } catch (const CLI::CallForVersion&) {
    show(std::string(kVersionLine) + "\n");
    return kGood;
  } catch (const CLI::ParseError& problem) {
    // CLI11 stopped at the error, so a --json behind it has not been read yet.
    for (int i = 1; i < argc; ++i) json_ = json_ || std::string_view(argv[i]) == "--json";
    return misuse(root, problem);
  }
  return execute(root);
}

int Cli::run(int argc, char** argv) {
  hold_standard_descriptors();
  set_signal_manners();
  CLI::App root(kTagline, "mfu");
  root.fallthrough();
  root.require_subcommand(0, 1);  // a folder may be called like a command: mfu export run
  add_global_options(root, json_, flags_);
  for (Command& command : commands_) {
    CLI::App* sub = root.add_subcommand(command.text.name, command.text.summary);
    sub->set_help_flag("-h,--help", "Show this help, with examples")->group("");
    command.add_options(*sub);
  }
  int status = dispatch(root, argc, argv);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fputs("mfu: cannot write to standard output\n", stderr);
    return kMisuse;
  }
  return status;
}

}  // namespace mfu::app
