// An attention mask row by row: how many keys are needed at all, and which rows belong to one
// sequence. Only for masks in host memory of a pass without grad.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace mfu::observer {

struct MaskRows {
  std::uint64_t batch = 0, rows = 0, keys = 0;  // its sizes, expanded dimensions as 1
  std::uint64_t columns = 0;                    // keys that some row attends to, of the whole batch
  std::uint64_t longest = 0;                    // the most of one of them
  // Of the first of the batch: rows follow each other in one sequence where a row attends to the
  // last key of the row before. Decoding: one row that attends to more than itself.
  std::uint64_t sequences = 0, area = 0;
  std::uint64_t decode_rows = 0, decode_area = 0, decode_columns = 0;
  std::uint64_t empty_rows = 0;  // attend to nothing
};

// Looked at once a pass for each mask. `area`: what it attends to altogether, 0 if not known. torch
// makes a mask of booleans anew for each layer, so masks of one pass with the same sizes and area
// are taken for one. None: its values are not at hand.
std::optional<MaskRows> rows_of_mask(const at::Tensor& mask, std::uint64_t pass,
                                     std::uint64_t area) noexcept;

}  // namespace mfu::observer
