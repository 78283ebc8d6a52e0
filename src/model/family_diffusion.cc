// Diffusion transformers by diffusers' configs, which name their class: Flux, SD3, DiT.
#include "model/families.h"
#include "model/tower.h"

namespace mfu {

std::span<const Family> diffusion_families() {
  return {};
}

}  // namespace mfu
