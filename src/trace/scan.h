// The lowest level of the trace reader: it walks over JSON text that may end anywhere and may be
// wrong. Every function takes the current position and the end of the text. It returns where the
// thing ends, or nullptr if the text ends first; then the caller waits for more text.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trace/stride.h"

namespace mfu {

inline bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Characters that end a number or a bare word.
inline constexpr auto kEndsWord = [] {
  std::array<bool, 256> ends{};
  for (char c : {',', '}', ']', ':', '"', '{', '[', ' ', '\n', '\t', '\r'}) {
    ends[static_cast<unsigned char>(c)] = true;
  }
  return ends;
}();
inline bool ends_word(char c) {
  return kEndsWord[static_cast<unsigned char>(c)];
}

// Skips spaces, tabs and line ends. Never nullptr.
inline const char* skip_space(const char* at, const char* end) {
  if (at < end && !is_space(*at)) return at;
  while (end - at >= kStride) {
    std::uint32_t hits = match_no_space(at);
    if (hits == 0) {
      at += kStride;
      continue;
    }
    at += std::countr_zero(hits);
    break;
  }
  while (at < end && is_space(*at)) ++at;
  return at;
}

// From after an opening quote: finds the closing one. Accepts control characters and bytes that are
// not UTF-8.
inline const char* find_closing_quote(const char* at, const char* end) {
  while (at < end) {
    if (end - at >= kStride) {
      std::uint32_t hits = match2(at, '"', '\\');
      if (hits == 0) {
        at += kStride;
        continue;
      }
      at += std::countr_zero(hits);
    }
    if (*at == '"') return at;
    at += *at == '\\' ? 2 : 1;
  }
  return nullptr;
}

// Skips an object or a list, from its opening bracket to just after its closing one. Nesting is
// counted and needs no recursion, so a million levels are no problem.
const char* skip_container(const char* at, const char* end);

// Skips a number or a bare word. nullptr if it touches `end`.
inline const char* skip_word(const char* at, const char* end) {
  while (end - at >= kStride) {
    std::uint32_t hits = match_no_digit(at);
    if (hits == 0) {
      at += kStride;
      continue;
    }
    at += std::countr_zero(hits);
    break;
  }
  while (at < end && !ends_word(*at)) ++at;
  return at < end ? at : nullptr;
}

// Skips a value of any kind, from its first character to just after its last. Numbers and bare
// words end at a separator, so one that touches `end` may not be complete: nullptr.
inline const char* skip_value(const char* at, const char* end) {
  if (at >= end) return nullptr;
  if (*at == '"') {
    const char* quote = find_closing_quote(at + 1, end);
    return quote == nullptr ? nullptr : quote + 1;
  }
  if (*at == '{' || *at == '[') return skip_container(at, end);
  return skip_word(at, end);
}

// Does the same for text that comes in pieces, for values that are too large to keep.
class ValueSkipper {
 public:
  // Takes as much as belongs to the value. Returns where it stopped: `end`, or just after the
  // value, and then done() is true. In the first call `at` is the value's first character.
  const char* take(const char* at, const char* end);
  bool done() const { return done_; }

 private:
  std::uint64_t depth_ = 0;
  bool in_string_ = false, escaped_ = false, begun_ = false, done_ = false;
};

// Finds the next object if an element of a list could not be read: a '{' before a quoted word that
// begins an event ("ph", "cat", "name", "pid", "tid", "ts", "args", "id", "dur", "bp", "s").
// nullptr if there is none before `end`.
const char* find_event_start(const char* at, const char* end);

}  // namespace mfu
