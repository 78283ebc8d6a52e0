// Tile quantisation. A matrix multiply runs in whole tiles of its output. If a side is no multiple
// of the tile, tensor pipes execute more than the model needs. Counters see what was executed; this
// is the share that was needed.
//
//   one multiply, M×N output over K:  MNK / (⌈M/t⌉t · ⌈N/t⌉t · ⌈K/d⌉d)
//
// The share is taken over the three multiplies of every weight (forward M×out over in, input
// gradient M×in over out, weight gradient in×out over M), weighted by their FLOPs.
#pragma once

#include <cstdint>

#include "mfu/model.h"

namespace mfu {

struct Tile {
  std::uint64_t side = 128;  // side of an output tile; cuBLAS uses it for large multiplies
  std::uint64_t depth = 16;  // along K, for one instruction on 16-bit types
};

// Above 0 and at most 1. `tokens` is the rows of a step; 0: so many that they do not matter.
double tile_share(const ModelSpec& model, std::uint64_t tokens, const Tile& tile = {});

}  // namespace mfu
