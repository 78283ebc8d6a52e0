// Reads an attention mask row by row: how many keys are needed at all, and which rows belong to one
// sequence. Only for masks in host memory, in a pass without grad.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace mfu::observer {

struct MaskRows {
  std::uint64_t batch = 0, rows = 0, keys = 0;  // its sizes; expanded dimensions count as 1
  std::uint64_t columns = 0;  // keys that some row attends to, over the whole batch
  std::uint64_t longest = 0;  // the most of one sequence
  // For the first of the batch: a row continues the sequence of the row before if it attends to
  // that row's last key. A single row that attends to more than itself decodes.
  std::uint64_t sequences = 0, area = 0;
  std::uint64_t decode_rows = 0, decode_area = 0, decode_columns = 0;
  std::uint64_t empty_rows = 0;  // rows that attend to nothing
};

// A mask is examined once per pass. `area` is how much it attends to, 0 if not known. torch
// converts a boolean mask anew for each layer, so masks of one pass with the same sizes and area
// are taken for the same one. Empty if the values cannot be read here.
std::optional<MaskRows> rows_of_mask(const at::Tensor& mask, std::uint64_t pass,
                                     std::uint64_t area) noexcept;

}  // namespace mfu::observer
