// Finds which lookups of a pass are its tokens.
#pragma once

#include <cstdint>

#include "torch/thread.h"

namespace mfu::observer {

struct Tokens {
  std::uint64_t rows = 0;  // rows of their table; 0 if there are no tokens
  std::uint64_t tokens = 0;
  std::uint64_t padded = 0;  // tokens that a mask or a label of -100 leaves out
  bool padding_seen = false, padding_unread = false;
  std::uint64_t samples = 0;  // sequences; without tokens, the batch
  std::uint64_t each = 0;     // tokens per sequence
};

// The lookup with sequences. If no lookup has two dimensions, the first.
inline const Lookup& sequences_of(const OpenPass& open) noexcept {
  for (std::uint32_t i = 0; i < open.lookup_count; ++i) {
    if (open.lookups[i].sizes[1] != 0) return open.lookups[i];
  }
  return open.lookups[0];
}

Tokens tokens_of(const OpenPass& pass, std::uint64_t last_columns);

}  // namespace mfu::observer
