// Vision towers: patches go in, a transformer runs over them, image tokens come out.
#pragma once

#include <string>

#include "model/decoder.h"

namespace mfu {

struct Tower {
  std::string prefix;  // "vision_tower."
  std::uint64_t hidden = 0, layers = 0, heads = 0, ffn = 0;
  std::uint64_t patch_inputs = 0;  // channels x frames x height x width of one patch
  bool patch_bias = true;
  std::uint64_t positions = 0, class_tokens = 0;
  NormKind norm = NormKind::layer;
  bool norm_before = false, norm_after = true;  // in addition to the norms of the layers
  bool gated = false, fused_qkv = false, qkv_bias = true, out_bias = true, mlp_bias = true;
  std::string_view q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj",
                   o = "self_attn.out_proj";
  std::string_view up = "mlp.fc1", down = "mlp.fc2";
  bool qk_norm = false;               // norms over the whole width
  std::uint64_t scales = 0;           // parameters of a layer that scale what its blocks add
  std::uint64_t block = 0;            // above 0: windows with so many patches on a side …
  std::vector<std::uint64_t> global;  // … except in these layers
  bool pooling_head = false;  // SigLIP's, which its class runs unless the config says otherwise
};
void add_tower(ModelSpec& model, const Tower& tower);

// A matrix of the projector. `rows` are those of the tower, of merged tokens or of pictures.
void add_vision_linear(LayerKind& layer, std::string_view name, std::uint64_t in, std::uint64_t out,
                       bool bias, Rows rows);
void add_vision_weights(LayerKind& layer, std::string_view name, std::uint64_t count);

struct PatchGrid {
  std::uint64_t side = 0, patch = 0;
  std::uint64_t patches() const { return side * side; }
};
PatchGrid read_patch_grid(const Fields& config, std::uint64_t image, std::uint64_t patch);

struct TowerDefaults {  // the defaults of the HF config class
  std::uint64_t hidden = 768, layers = 12, heads = 12, ffn = 3072;
};
// Reads the fields that have the same names in nearly every tower's config.
Tower read_tower(const Fields& config, const PatchGrid& grid, const TowerDefaults& defaults = {});
Tower read_clip_tower(const Fields& config, ModelSpec& model);
Tower read_siglip_tower(const Fields& config, ModelSpec& model);
// The pooling head: attention from one learned query over all patches. If nobody reads its output,
// it runs but is not trained.
void add_siglip_head(ModelSpec& model, const Tower& tower, bool read = true);

}  // namespace mfu
