// Credentials in text: people attach traces, reports and run directories to public issues. What
// looks like one is found and hidden, here and nowhere else. Two ways to be recognised: by its own
// form (hf_…, sk-…, a JSON web token, a private key, the password in a URL), and by the name it
// stands behind (HF_TOKEN=…, --api-key …, "password": …). Model names, hashes, paths and special
// tokens (eos_token) are none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

struct Secret {
  std::size_t begin = 0, size = 0;  // of the value, without what it stands behind
  std::string_view kind;            // "a Hugging Face token", for people
};

// In the order they stand; they do not overlap.
std::vector<Secret> find_secrets(std::string_view text);

// What kind of credential `value` is where it stands behind `name` (a variable, an option, a key);
// none: no credential.
std::optional<std::string_view> secret_behind(std::string_view name, std::string_view value);

// The same with each secret replaced by "[hidden]".
std::string without_secrets(std::string_view text);
// A command line, in which a value may be the word behind its option.
std::vector<std::string> without_secrets(const std::vector<std::string>& command);

}  // namespace mfu
