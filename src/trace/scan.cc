#include "trace/scan.h"

#include <array>
#include <bit>
#include <cstring>

namespace mfu {
namespace {

// Skips from inside nesting of the given depth to just after its end.
const char* skip_nested(const char* at, const char* end, std::uint64_t depth) {
  while (at < end) {
    std::uint32_t hits = end - at >= kStride ? match_nesting(at) : 1;
    const char* stride = at;
    at = end - at >= kStride ? at + kStride : at + 1;
    while (hits != 0) {
      const char* hit = stride + std::countr_zero(hits);
      hits &= hits - 1;
      if (*hit == '"') {
        const char* quote = find_closing_quote(hit + 1, end);
        if (quote == nullptr) return nullptr;
        at = quote + 1;
        break;
      }
      if (*hit == '{' || *hit == '[') ++depth;
      if (*hit == '}' || *hit == ']') {
        if (--depth == 0) return hit + 1;
      }
    }
  }
  return nullptr;
}

}  // namespace

const char* skip_container(const char* at, const char* end) {
  return skip_nested(at + 1, end, 1);
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
      done_ = true;  // a number or word has ended; the separator does not belong to it
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
