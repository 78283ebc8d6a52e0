// Finds positions that an attention mask or a label of −100 leaves out. It looks where masks and
// labels are used: in the first attention of a pass (fused, or made of a softmax) and in losses. It
// reads values in host memory only; for others it says that they were not read.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "torch/thread.h"

namespace mfu::observer {

inline constexpr std::int64_t kIgnoredLabel = -100;

// The mask of a fused attention.
void note_mask(Thread& thread, const at::Tensor& mask, std::uint64_t batch,
               std::uint64_t keys) noexcept;
// The input of a softmax over the last dimension. In a pass with tokens these are scores. If a
// cache is longer than its content, only they tell what is attended to.
void note_scores(Thread& thread, const at::Tensor& scores) noexcept;
// The classes that a loss compares with, or part of them.
void note_targets(Thread& thread, const at::Tensor& targets, std::int64_t ignored) noexcept;
// Labels as they were given: before or after a shift.
void note_labels(Thread& thread, const at::Tensor& labels) noexcept;

}  // namespace mfu::observer
