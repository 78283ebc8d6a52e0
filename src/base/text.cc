#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace mfu {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string whole;
  for (const std::string& part : parts) {
    if (!whole.empty()) whole += separator;
    whole += part;
  }
  return whole;
}

std::size_t utf8_sequence_length(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  std::size_t length = byte(0) >= 0xF0 && byte(0) < 0xF5   ? 4
                       : byte(0) >= 0xE0 && byte(0) < 0xF0 ? 3
                       : byte(0) >= 0xC2 && byte(0) < 0xE0 ? 2
                                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond U+10FFFF (Unicode 15, table 3-7).
  if (byte(0) == 0xE0 && byte(1) < 0xA0) return 0;
  if (byte(0) == 0xED && byte(1) >= 0xA0) return 0;
  if (byte(0) == 0xF0 && byte(1) < 0x90) return 0;
  if (byte(0) == 0xF4 && byte(1) >= 0x90) return 0;
  return length;
}

std::uint32_t utf8_code(std::string_view sequence) {
  constexpr unsigned char kLead[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  std::uint32_t code = static_cast<unsigned char>(sequence[0]) & kLead[sequence.size()];
  for (char letter : sequence.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(letter) & 0x3Fu);
  }
  return code;
}

bool is_harmless(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return false;
  if (code < 0x061C) return true;
  return code != 0x061C && code != 0x200E && code != 0x200F &&
         !(code >= 0x2028 && code <= 0x202E) && !(code >= 0x2066 && code <= 0x2069);
}

std::string printable(std::string_view text, std::size_t most) {
  std::string safe;
  while (!text.empty() && safe.size() < most) {
    std::size_t length = utf8_sequence_length(text);
    if (length == 0 || !is_harmless(utf8_code(text.substr(0, length)))) {
      safe += '?';
      length = std::max<std::size_t>(length, 1);
    } else {
      safe += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return safe;
}

std::optional<double> parse_number(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t count = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || stop != end) return std::nullopt;
  return count;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (char letter : text) {
    if ((static_cast<unsigned char>(letter) & 0xC0) != 0x80) ++width;
  }
  return width;
}

}  // namespace mfu
