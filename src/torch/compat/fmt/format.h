// fmt::format for plain {} only, in place of the real one. The observer is compiled on users'
// machines, for the torch there and without any other library. It only formats the error messages
// of ops/.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace fmt {

template <class Value>
std::string text_of(const Value& value) {
  if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
    return std::string(std::string_view(value));
  } else {
    return std::to_string(value);
  }
}

template <class... Values>
std::string format(std::string_view pattern, const Values&... values) {
  std::string result;
  auto next = [&](const std::string& text) {
    std::size_t place = pattern.find("{}");
    result += pattern.substr(0, place);
    if (place == std::string_view::npos) {
      pattern = {};
      return;
    }
    result += text;
    pattern.remove_prefix(place + 2);
  };
  (next(text_of(values)), ...);
  return result += pattern;
}

}  // namespace fmt
