// What the observer asks of a call beside its cost (mfu/ops.h): the sizes of a product with a
// weight, and the sequences of an attention over pages of a cache.
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
// None for batches of products and for what is no product.
std::optional<ProductSizes> product_sizes(const Operator& op, std::span<const Argument> arguments,
                                          const Argument& result);

// Sequences of one kind, all together.
struct PagedPart {
  std::uint64_t sequences = 0;
  std::uint64_t rows = 0;  // new tokens
  std::uint64_t keys = 0;  // attended to by any of them, each sequence's own
  std::uint64_t flop = 0;
};
struct PagedSizes {
  PagedPart one;            // one token comes to what is cached
  PagedPart few;            // a few do: drafted ones that are verified, or a piece of a prompt
  PagedPart many;           // many do, or nothing was cached
  std::uint64_t begun = 0;  // sequences of which nothing was cached
  std::uint64_t token_bytes = 0;  // of a token's keys and values in the cache
  bool causal = false;            // false: an encoder's, or one that attends across to it
};
inline constexpr std::int64_t kMostDrafted = 32;  // tokens that a verification brings at once
// None for any other operator, and where the lengths are not at hand.
std::optional<PagedSizes> paged_sizes(const Operator& op, std::span<const Argument> arguments);

}  // namespace mfu
