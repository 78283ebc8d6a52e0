// Tile quantisation: a matrix multiply runs in whole tiles of its output, so tensor pipes execute
// more than the model needs where a side is no multiple of the tile. Counters see what was
// executed; this is the share of it that was needed.
//
//   one multiply, M×N output over K:  MNK / (⌈M/t⌉t · ⌈N/t⌉t · ⌈K/d⌉d)
//
// taken over the three multiplies of every weight (forward M×out over in, the input's gradient M×in
// over out, the weight's in×out over M), by their FLOPs.
#pragma once

#include <cstdint>

#include "mfu/model.h"

namespace mfu {

struct Tile {
  std::uint64_t side = 128;  // of the output; what cuBLAS runs large multiplies with
  std::uint64_t depth = 16;  // along K, of one instruction on 16-bit types
};

// Above 0, at most 1. `tokens`: rows of a step; 0: so many that they do not matter.
double tile_share(const ModelSpec& model, std::uint64_t tokens, const Tile& tile = {});

}  // namespace mfu
