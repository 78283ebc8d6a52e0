// How many (query, key) pairs a mask lets through, in closed form.
#pragma once

#include <cstdint>

#include "mfu/model.h"

namespace mfu {

// The size of a prefix mask that is the prompt itself.
inline constexpr std::uint64_t kPromptPrefix = ~0ull;

// One sequence: `length` new tokens after `context` in the cache, beside `encoder` encoder tokens.
struct Span {
  std::uint64_t length = 0;
  std::uint64_t context = 0;
  std::uint64_t count = 1;  // sequences like this
};

// Pairs of one sequence. Contract: lengths up to 2^41; a window, chunk or top-k of 1 or more; no
// `blocks`, which are counted by block_pairs.
Uint128 attended_pairs(const Mask& mask, const Span& span, std::uint64_t encoder);

// Keys that eager code holds for one sequence: all of them, or those that a sliding cache kept and
// the new ones.
std::uint64_t held_keys(const Mask& mask, const Span& span, std::uint64_t encoder);

// Σ over blocks of side `side` of their squared area, the last ones of a row or column cut short.
Uint128 block_pairs(std::uint64_t height, std::uint64_t width, std::uint64_t side);

}  // namespace mfu
