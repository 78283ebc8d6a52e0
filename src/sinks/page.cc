#include "sinks/page.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/digest.h"
#include "base/text.h"

namespace mfu {

namespace {

std::string source_of(std::string_view text) {
  std::array<std::uint8_t, 32> digest = sha256(text);
  return fmt::format("'sha256-{}'",
                     base64({reinterpret_cast<const char*>(digest.data()), digest.size()}));
}

std::string html_escaped(std::string_view text) {
  std::string safe;
  for (char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

// Inside a script element only markup is dangerous. Written as escapes, it is the same JSON without
// markup.
std::string inert(std::string_view json) {
  std::string safe;
  safe.reserve(json.size());
  for (char c : json) {
    if (c == '<' || c == '>' || c == '&') {
      safe += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string assemble_page(const PageParts& parts) {
  const std::string policy = fmt::format(
      "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
      source_of(parts.script), source_of(parts.style));
  const std::array<std::pair<std::string_view, std::string>, 6> places = {
      {{"@POLICY@", policy},
       {"@VERSION@", MFU_VERSION},
       {"@TITLE@", html_escaped(printable(parts.title, 512))},
       {"@STYLE@", std::string(parts.style)},
       {"@DATA@", inert(parts.data)},
       {"@SCRIPT@", parts.script}}};
  // Fills the skeleton in one pass, in its own order. Text that was inserted is never searched.
  std::string page;
  std::string_view rest = parts.skeleton;
  for (const auto& [name, text] : places) {
    std::size_t at = rest.find(name);
    if (at == std::string_view::npos) continue;
    page += rest.substr(0, at);
    page += text;
    rest.remove_prefix(at + name.size());
  }
  page += rest;
  return page;
}

}  // namespace mfu
