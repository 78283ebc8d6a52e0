// What the observer needs to know of a call in addition to its cost (mfu/ops.h): the sizes of a
// product with a weight, and the sequences of an attention over pages of a cache.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "mfu/ops.h"

namespace mfu {

// [rows, inner] × [inner, columns].
struct ProductSizes {
  std::uint64_t rows = 0, inner = 0, columns = 0;
};
// Empty for batches of products and for anything that is no product.
std::optional<ProductSizes> product_sizes(const Operator& op, std::span<const Argument> arguments,
                                          const Argument& result);

// The sums over sequences of one kind.
struct PagedPart {
  std::uint64_t sequences = 0;
  std::uint64_t rows = 0;  // new tokens
  std::uint64_t keys = 0;  // keys that a sequence attends to, summed over the sequences
  std::uint64_t flop = 0;
};
struct PagedSizes {
  PagedPart one;            // sequences with one new token after the cached ones
  PagedPart few;            // with a few: drafted tokens that are verified, or a piece of a prompt
  PagedPart many;           // with many, or with nothing in the cache
  std::uint64_t begun = 0;  // sequences with nothing in the cache
  std::uint64_t token_bytes = 0;  // size of a token's keys and values in the cache
  bool causal = false;            // false: in an encoder, or attention across to one
};
inline constexpr std::int64_t kMostDrafted = 32;  // tokens that a verification brings at once
// Empty for any other operator, and if the lengths are not known.
std::optional<PagedSizes> paged_sizes(const Operator& op, std::span<const Argument> arguments);

}  // namespace mfu
