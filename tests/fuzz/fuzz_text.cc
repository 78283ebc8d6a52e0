// Any bytes, taken as text: what is printed of them controls no terminal, and secrets are found
// inside them, in order.
#include <cstdint>
#include <cstdlib>

#include "base/secrets.h"
#include "base/text.h"
#include "sinks/table.h"

namespace {

void need(bool holds) {
  if (!holds) std::abort();
}

// The printed text is well-formed and harmless except for line ends and tabs.
bool is_safe(std::string_view text) {
  while (!text.empty()) {
    std::size_t length = mfu::utf8_sequence_length(text);
    if (length == 0) return false;
    std::uint32_t code = mfu::utf8_code(text.substr(0, length));
    if (!mfu::is_harmless(code) && code != '\n' && code != '\t') return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  need(is_safe(mfu::terminal_text(text, {})));
  need(is_safe(mfu::printable(text, 1000)));
  std::size_t last = 0;
  for (const mfu::Secret& secret : mfu::find_secrets(text)) {
    need(secret.begin >= last && secret.size > 0);
    last = secret.begin + secret.size;
    need(last <= text.size());
  }
  need(is_safe(mfu::printable(mfu::without_secrets(text), 1000)));
  return 0;
}
