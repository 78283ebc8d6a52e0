// Positions that an attention mask or a label of −100 leaves out, seen where masks and labels are
// used: by the first attention of a pass, fused or made of a softmax, and by losses. Only values on
// the host are read; of others it is said that they were not.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "torch/thread.h"

namespace mfu::observer {

inline constexpr std::int64_t kIgnoredLabel = -100;

// The mask of a fused attention.
void note_mask(Thread& thread, const at::Tensor& mask, std::uint64_t batch,
               std::uint64_t keys) noexcept;
// What a softmax over the last dimension takes: scores, where a pass has tokens. Of a cache that is
// longer than what is in it, only they tell what is attended to.
void note_scores(Thread& thread, const at::Tensor& scores) noexcept;
// The classes that a loss compares with, or part of them.
void note_targets(Thread& thread, const at::Tensor& targets, std::int64_t ignored) noexcept;
// Labels as they were given: held against −100, or shifted with it.
void note_labels(Thread& thread, const at::Tensor& labels) noexcept;

}  // namespace mfu::observer
