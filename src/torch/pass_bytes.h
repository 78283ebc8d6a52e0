// What the current pass had to move, from its operators' own shapes: weights, the cache that
// attention reads, and the rows that it adds. Also which sequences a packed pass consists of, if
// the attention mask tells (continuous batching).
#pragma once

#include <cstdint>

#include "mfu/ops.h"
#include "ops/operands.h"
#include "torch/arguments.h"
#include "torch/thread.h"

namespace mfu::observer {

// For an operator of the table, once it is counted: what the attention needed and executed.
struct AttentionFlops {
  std::uint64_t model_flop = 0, hardware_flop = 0;  // model_flop is for the full rectangle
  const at::Tensor* mask = nullptr;                 // null if none was given
  std::uint64_t mask_area = 0;                      // 0 if not known
  std::uint32_t type = 0;                           // the recorder's number
};
void note_operands(Thread& thread, const Operator& row, const Arguments& arguments,
                   const AttentionFlops& flop) noexcept;

// Attention over pages of a cache (vLLM's). Its arguments tell the sequences.
void note_paged(Thread& thread, const PagedSizes& sizes, std::uint32_t type) noexcept;

// Attention made of two batched products, seen at the second one.
struct BatchedAttention {
  std::uint64_t heads = 0;  // batch × heads
  std::uint64_t queries = 0, keys = 0, key_width = 0, value_width = 0, element_bytes = 0;
  std::uint64_t type = 0;  // the recorder's number
};
void note_batched_cache(Thread& thread, const BatchedAttention& attention) noexcept;

}  // namespace mfu::observer
