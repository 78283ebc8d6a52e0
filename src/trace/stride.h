// Looking for a few characters in a stride of text at a time: 16 bytes with SSE2, which every
// x86-64 has, 8 in a plain word elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mfu {

#if defined(__SSE2__)
inline constexpr std::ptrdiff_t kStride = 16;

// One bit a byte: which of the next 16 are one of these two.
inline std::uint32_t match2(const char* at, char a, char b) {
  __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(a)),
                              _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b)));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(hits));
}

// Which of the next 16 are a quote or a bracket: '[' and '{', ']' and '}' differ in one bit only.
inline std::uint32_t match_nesting(const char* at) {
  __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
  __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{')),
                              _mm_cmpeq_epi8(folded, _mm_set1_epi8('}')));
  hits = _mm_or_si128(hits, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(hits));
}
#else
inline constexpr std::ptrdiff_t kStride = 8;

// Eight bytes in a word: the high bit of each byte that equals c.
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
#endif

}  // namespace mfu
