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

// Length of the well-formed UTF-8 sequence at the start of the text. 0 if there is none; overlong
// forms and surrogates are not well-formed. Contract: `text` is not empty.
std::size_t utf8_sequence_length(std::string_view text);
// The code point of such a sequence.
std::uint32_t utf8_code(std::string_view sequence);

// Whether a terminal only shows this character and does nothing else. Not harmless are control
// characters (C0, DEL, and C1, where U+009B begins an escape sequence), line and paragraph
// separators, and whatever changes the direction of text (U+061C, U+200E…, U+202A…, U+2066…).
bool is_harmless(std::uint32_t code);

// Makes text from a program or file safe to print: characters that are not harmless and bytes that
// are not UTF-8 become '?', and the text is cut after `most` bytes.
std::string printable(std::string_view text, std::size_t most = 96);

// The whole text as a number. None if it holds anything else; infinity and NaN are not numbers.
std::optional<double> parse_number(std::string_view text);
std::optional<std::uint64_t> parse_count(std::string_view text);

// The columns that a terminal needs for the text: one per code point, as we print no combining
// marks.
std::size_t display_width(std::string_view text);

}  // namespace mfu
