// Computes in closed form how many (query, key) pairs a mask allows.
#pragma once

#include <cstdint>

#include "mfu/model.h"

namespace mfu {

// The size of a prefix mask whose prefix is the prompt itself.
inline constexpr std::uint64_t kPromptPrefix = ~0ull;

// One sequence: `length` new tokens after `context` tokens in the cache, and `encoder` encoder
// tokens.
struct Span {
  std::uint64_t length = 0;
  std::uint64_t context = 0;
  std::uint64_t count = 1;  // how many sequences are like this
};

// The pairs of one sequence. Contract: lengths are at most 2^41, and a window, chunk or top-k is at
// least 1. Not for `blocks`, which block_pairs counts.
Uint128 attended_pairs(const Mask& mask, const Span& span, std::uint64_t encoder);

// The keys that eager code has for one sequence: all keys, or those that a sliding cache has kept
// and the new ones.
std::uint64_t held_keys(const Mask& mask, const Span& span, std::uint64_t encoder);

// The sum of squared areas of all blocks with sides of `side`. The last ones of a row or column may
// be smaller.
Uint128 block_pairs(std::uint64_t height, std::uint64_t width, std::uint64_t side);

}  // namespace mfu
