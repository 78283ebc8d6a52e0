// Sums of numbers from files: if 64 bits are too few, the sum stays at their largest value.
#pragma once

#include <cstdint>

namespace mfu {

inline std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

}  // namespace mfu
