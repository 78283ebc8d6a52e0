// Reads an attention mask row by row: how many keys are needed at all, and which rows belong to one
// sequence. Only for masks in host memory, in a pass without grad.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "torch/pass_parts.h"

namespace mfu::observer {

// A mask is examined once per pass. `area` is how much it attends to, 0 if not known. torch
// converts a boolean mask anew for each layer, so masks of one pass with the same sizes and area
// are taken for the same one. Empty if the values cannot be read here.
std::optional<MaskRows> rows_of_mask(const at::Tensor& mask, std::uint64_t pass,
                                     std::uint64_t area) noexcept;
// The same for scores to which a mask was added. Nothing is remembered.
std::optional<MaskRows> rows_of_scores(const at::Tensor& scores) noexcept;

}  // namespace mfu::observer
