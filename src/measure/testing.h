// For the tests: the small model whose steps they count.
#pragma once

#include "mfu/model.h"

namespace mfu {

inline ModelSpec small() {
  return *model_of_shape({.layers = 2, .hidden = 64, .heads = 4, .ffn = 256, .vocab = 1000});
}

}  // namespace mfu
