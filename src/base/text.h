// Small text functions that the standard library lacks. UTF-8 in, UTF-8 out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string to_lower(std::string_view text);  // ASCII letters only
std::string join(const std::vector<std::string>& parts, std::string_view separator);

// Bytes of the well-formed UTF-8 sequence that the text starts with; 0 where it starts with none
// (overlong forms and surrogates are none). Contract: not empty.
std::size_t utf8_sequence_length(std::string_view text);
// The code point of such a sequence.
std::uint32_t utf8_code(std::string_view sequence);

// A character that a terminal shows, and that changes nothing else: no control character (C0, DEL,
// and C1, where U+009B begins an escape sequence), no line or paragraph separator, nothing that
// turns the direction of the text behind it (U+061C, U+200E…, U+202A…, U+2066…).
bool is_harmless(std::uint32_t code);

// What a program or file of unknown manners gave, made safe to print: characters that are not
// harmless and bytes that are not UTF-8 become '?', and it ends after `most` bytes.
std::string printable(std::string_view text, std::size_t most = 96);

// The whole text as a number; none where anything else stands in it. Infinity and NaN are not
// numbers.
std::optional<double> parse_number(std::string_view text);
std::optional<std::uint64_t> parse_count(std::string_view text);

// Columns a terminal needs for it: code points, no combining marks expected in what we print.
std::size_t display_width(std::string_view text);

}  // namespace mfu
