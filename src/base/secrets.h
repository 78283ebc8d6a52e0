// Finds and hides credentials in text, because people attach traces, reports and run directories to
// public issues. A credential is recognised by its form (hf_…, sk-…, a JSON web token, a private
// key, the password in a URL) or by the name in front of it (HF_TOKEN=…, --api-key …,
// "password": …). Model names, hashes, paths and special tokens (eos_token) are not credentials.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

struct Secret {
  std::size_t begin = 0, size = 0;  // of the value, without the name in front of it
  std::string_view kind;            // "a Hugging Face token", for people
};

// The secrets in the order of the text. They do not overlap.
std::vector<Secret> find_secrets(std::string_view text);

// The kind of credential that `value` is if it follows `name` (a variable, an option, a key). None
// if it is not a credential.
std::optional<std::string_view> secret_behind(std::string_view name, std::string_view value);

// The same with each secret replaced by "[hidden]".
std::string without_secrets(std::string_view text);
// The same for a command line, where a value may be the word after its option.
std::vector<std::string> without_secrets(const std::vector<std::string>& command);

}  // namespace mfu
