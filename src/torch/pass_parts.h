// What a pass moved, and what it is made of where its sequences are packed: filled by pass_bytes.cc
// while the pass is under way, read where it is booked.
#pragma once

#include <cstdint>

namespace mfu::observer {

// What a pass had to move (pass_bytes.h).
struct PassBytes {
  std::uint64_t weight_read = 0, cache_read = 0, cache_written = 0;
  bool unknown = false;  // something ran whose weights nobody saw
  // Keys and values were made of what is cached for them together (multi-head latent attention): a
  // cache was met that holds it; what the pass would add to such a cache, where it met none.
  bool latent = false;
  std::uint64_t latent_written = 0;
};

// A pass whose one row of tokens is several sequences: what attention says of them, and its FLOPs.
struct Packed {
  std::uint64_t sequences = 0;  // 0: it is not packed, as far as is known
  std::uint64_t rows = 0, decode_rows = 0, empty_rows = 0;
  std::uint64_t model_flop = 0, hardware_flop = 0;
  std::uint64_t decode_model_flop = 0, decode_hardware_flop = 0;
  std::uint64_t decode_read = 0, decode_written = 0;  // bytes
};

}  // namespace mfu::observer
