// What a pass moved, and what it consists of if its sequences are packed. pass_bytes.cc fills it
// while the pass runs; it is read when the pass is booked.
#pragma once

#include <cstdint>

namespace mfu::observer {

// What a pass had to move (pass_bytes.h).
struct PassBytes {
  std::uint64_t weight_read = 0, cache_read = 0, cache_written = 0;
  bool unknown = false;  // something ran whose weights nobody saw
  // Keys and values were made from a cached latent (multi-head latent attention). Says whether a
  // cache with it was met and, if not, what the pass would add to such a cache.
  bool latent = false;
  std::uint64_t latent_written = 0;
};

// What the rows of an attention mask tell, or scores to which one was added (mask_rows.h).
struct MaskRows {
  std::uint64_t batch = 0, rows = 0, keys = 0;  // its sizes; expanded dimensions count as 1
  std::uint64_t columns = 0;  // keys that some row attends to, over the whole batch
  std::uint64_t longest = 0;  // the most of one sequence
  // For the first of the batch: a row continues the sequence of the row before if it attends to
  // that row's last key. A single row that attends to more than itself decodes, if there are more
  // keys than rows.
  std::uint64_t sequences = 0, area = 0;
  std::uint64_t decode_rows = 0, decode_area = 0, decode_columns = 0;
  std::uint64_t empty_rows = 0;  // rows that attend to nothing
};

// Some sequences of a packed pass.
struct PackedPart {
  std::uint64_t sequences = 0, rows = 0;
  std::uint64_t model_flop = 0, hardware_flop = 0;  // of attention
  std::uint64_t read = 0, written = 0;              // bytes of the cache
};

// A pass whose one row of tokens is several sequences, with what attention tells about them, and
// its FLOPs.
struct Packed {
  std::uint64_t sequences = 0;  // 0 if it is not packed, as far as is known
  std::uint64_t rows = 0, empty_rows = 0;
  std::uint64_t model_flop = 0, hardware_flop = 0;
  std::uint32_t type = 0;   // data type of the attention's FLOPs
  PackedPart decode;        // sequences with one new token after the cached ones
  PackedPart few;           // with a few: this is decoding too if all of them get logits
  bool cached = false;      // it wrote to pages of a cache, outside of an encoder
  std::uint64_t begun = 0;  // sequences with nothing in the cache, if it wrote to pages
};

}  // namespace mfu::observer
