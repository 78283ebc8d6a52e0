#include "trace/scan.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mfu {
namespace {

#if defined(__SSE2__)
constexpr std::ptrdiff_t kStride = 16;

// One bit a byte: which of the next 16 are one of these two.
std::uint32_t match2(const char* at, char a, char b) {
  __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(a)),
                              _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b)));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(hits));
}

// Which of the next 16 are a quote or a bracket: '[' and '{', ']' and '}' differ in one bit only.
std::uint32_t match_nesting(const char* at) {
  __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
  __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{')),
                              _mm_cmpeq_epi8(folded, _mm_set1_epi8('}')));
  hits = _mm_or_si128(hits, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(hits));
}
#else
constexpr std::ptrdiff_t kStride = 8;

// Eight bytes in a word: the high bit of each byte that equals c.
std::uint64_t equal_bytes(std::uint64_t word, char c) {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kLow = 0x7f7f7f7f7f7f7f7f;
  std::uint64_t x = word ^ (kOnes * static_cast<unsigned char>(c));
  return ~(((x & kLow) + kLow) | x | kLow);
}
std::uint32_t to_bits(std::uint64_t high_bits) {
  std::uint32_t bits = 0;
  for (int i = 0; i < 8; ++i) bits |= static_cast<std::uint32_t>(high_bits >> (8 * i + 7) & 1) << i;
  return bits;
}
std::uint64_t load_word(const char* at) {
  std::uint64_t word = 0;
  for (int i = 0; i < 8; ++i) {
    word |= static_cast<std::uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
  }
  return word;
}
std::uint32_t match2(const char* at, char a, char b) {
  std::uint64_t word = load_word(at);
  return to_bits(equal_bytes(word, a) | equal_bytes(word, b));
}
std::uint32_t match_nesting(const char* at) {
  std::uint64_t word = load_word(at);
  return to_bits(equal_bytes(word, '"') | equal_bytes(word, '{') | equal_bytes(word, '[') |
                 equal_bytes(word, '}') | equal_bytes(word, ']'));
}
#endif

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
bool ends_word(char c) {
  return c == ',' || c == '}' || c == ']' || c == ':' || c == '"' || c == '{' || c == '[' ||
         is_space(c);
}

// From within nesting of the given depth to just after what closes it.
const char* skip_nested(const char* at, const char* end, std::uint64_t depth) {
  while (at < end) {
    if (end - at >= kStride) {
      std::uint32_t hits = match_nesting(at);
      if (hits == 0) {
        at += kStride;
        continue;
      }
      at += std::countr_zero(hits);
    }
    char c = *at++;
    if (c == '"') {
      at = find_closing_quote(at, end);
      if (at == nullptr) return nullptr;
      ++at;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) return at;
    }
  }
  return nullptr;
}

}  // namespace

const char* skip_space(const char* at, const char* end) {
  while (at < end && is_space(*at)) ++at;
  return at;
}

const char* find_closing_quote(const char* at, const char* end) {
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

const char* skip_value(const char* at, const char* end) {
  if (at >= end) return nullptr;
  if (*at == '"') {
    const char* quote = find_closing_quote(at + 1, end);
    return quote == nullptr ? nullptr : quote + 1;
  }
  if (*at == '{' || *at == '[') return skip_nested(at + 1, end, 1);
  while (at < end && !ends_word(*at)) ++at;
  return at < end ? at : nullptr;
}

const char* ValueSkipper::take(const char* at, const char* end) {
  while (at < end && !done_) {
    char c = *at;
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
        done_ = depth_ == 0;
      }
      ++at;
      continue;
    }
    if (begun_ && depth_ == 0 && ends_word(c)) {
      done_ = true;  // a number or word has ended; the separator is not its own
      return at;
    }
    begun_ = true;
    ++at;
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    if ((c == '}' || c == ']') && depth_ > 0) done_ = --depth_ == 0;
  }
  return at;
}

const char* find_event_start(const char* at, const char* end) {
  constexpr std::array<std::string_view, 11> kFirstKeys = {
      "\"ph\"",   "\"cat\"", "\"name\"", "\"pid\"", "\"tid\"", "\"ts\"",
      "\"args\"", "\"id\"",  "\"dur\"",  "\"bp\"",  "\"s\""};
  while (at < end) {
    at = static_cast<const char*>(std::memchr(at, '{', static_cast<std::size_t>(end - at)));
    if (at == nullptr) return nullptr;
    const char* key = skip_space(at + 1, end);
    std::string_view rest(key, static_cast<std::size_t>(end - key));
    for (std::string_view first : kFirstKeys) {
      if (rest.starts_with(first)) return at;
    }
    ++at;
  }
  return nullptr;
}

}  // namespace mfu
