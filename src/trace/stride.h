// Searches text for a few characters, several bytes at a time: 16 with SSE2, which every x86-64
// has, or NEON, which every AArch64 has. Elsewhere 8, in a plain word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "trace/lanes.h"

namespace mfu {

#if defined(MFU_LANES)
inline constexpr std::ptrdiff_t kStride = 16;

// Which of the next 16 bytes are one of these two.
inline std::uint32_t match2(const char* at, char a, char b) {
  Stride bytes = load_stride(at);
  return bits_of(either(equal(bytes, a), equal(bytes, b)));
}

// Which of the next 16 bytes are a quote or a bracket. '[' and '{' differ in one bit only, and so
// do ']' and '}'.
inline std::uint32_t match_nesting(const char* at) {
  Stride bytes = load_stride(at);
  Stride folded = with_bits(bytes, 0x20);
  return bits_of(either(either(equal(folded, '{'), equal(folded, '}')), equal(bytes, '"')));
}

// Which of the next 16 bytes are not a space, tab or line end.
inline std::uint32_t match_no_space(const char* at) {
  Stride bytes = load_stride(at);
  Stride blanks = either(equal(bytes, ' '), equal(bytes, '\n'));
  return bits_of(either(blanks, either(equal(bytes, '\t'), equal(bytes, '\r')))) ^ 0xffff;
}

// Which of the next 16 bytes are not in -./0123456789, which are consecutive characters.
inline std::uint32_t match_no_digit(const char* at) {
  return bits_of(between(load_stride(at), '-', '9')) ^ 0xffff;
}

// Which of the next 16 bytes are not printable ASCII.
inline std::uint32_t match_not_printable(const char* at) {
  return bits_of(between(load_stride(at), 0x20, 0x7e)) ^ 0xffff;
}

// Both texts must be readable up to a whole number of strides.
inline bool same_bytes(const char* a, const char* b, std::size_t size) {
  auto differing = [](const char* x, const char* y) {
    return bits_of(equal(load_stride(x), load_stride(y))) ^ 0xffff;
  };
  for (; size > 16; size -= 16, a += 16, b += 16) {
    if (differing(a, b) != 0) return false;
  }
  return (differing(a, b) & ((std::uint32_t{1} << size) - 1)) == 0;
}
#else
inline constexpr std::ptrdiff_t kStride = 8;

// Compares eight bytes in a word: sets the high bit of each byte that equals c.
inline std::uint64_t equal_bytes(std::uint64_t word, char c) {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kLow = 0x7f7f7f7f7f7f7f7f;
  std::uint64_t x = word ^ (kOnes * static_cast<unsigned char>(c));
  return ~(((x & kLow) + kLow) | x | kLow);
}
inline std::uint32_t to_bits(std::uint64_t high_bits) {
  std::uint32_t bits = 0;
  for (int i = 0; i < 8; ++i) bits |= static_cast<std::uint32_t>(high_bits >> (8 * i + 7) & 1) << i;
  return bits;
}
inline std::uint64_t load_word(const char* at) {
  std::uint64_t word = 0;
  for (int i = 0; i < 8; ++i) {
    word |= static_cast<std::uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
  }
  return word;
}
inline std::uint32_t match2(const char* at, char a, char b) {
  std::uint64_t word = load_word(at);
  return to_bits(equal_bytes(word, a) | equal_bytes(word, b));
}
inline std::uint32_t match_nesting(const char* at) {
  std::uint64_t word = load_word(at);
  return to_bits(equal_bytes(word, '"') | equal_bytes(word, '{') | equal_bytes(word, '[') |
                 equal_bytes(word, '}') | equal_bytes(word, ']'));
}
// These say that the very next byte may be one, so that the caller looks at it.
inline std::uint32_t match_no_space(const char*) {
  return 1;
}
inline std::uint32_t match_no_digit(const char*) {
  return 1;
}
inline std::uint32_t match_not_printable(const char* at) {
  std::uint32_t hits = 0;
  for (int i = 0; i < 8; ++i) hits |= std::uint32_t{at[i] < 0x20 || at[i] > 0x7e} << i;
  return hits;
}
inline bool same_bytes(const char* a, const char* b, std::size_t size) {
  return std::memcmp(a, b, size) == 0;
}
#endif

inline bool is_printable(const char* at, std::size_t size) {
  std::uint32_t hits = 0;
  for (; size >= static_cast<std::size_t>(kStride); size -= kStride, at += kStride) {
    hits |= match_not_printable(at);
  }
  for (; size > 0; --size, ++at) hits |= std::uint32_t{*at < 0x20 || *at > 0x7e};
  return hits == 0;
}

}  // namespace mfu
