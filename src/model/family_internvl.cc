// InternVL (arXiv 2404.16821), Idefics 3 (arXiv 2408.12637) and SmolVLM: a tower whose patches are
// shuffled into fewer, wider tokens before the decoder.
#include "model/families.h"
#include "model/tower.h"

namespace mfu {
namespace {

Tower read_intern_tower(const Fields& vision, ModelSpec& model, std::uint64_t merge) {
  PatchGrid grid = read_patch_grid(vision, 448, 14);
  Tower tower = read_tower(vision, grid, {1024, 24, 16, 4096});
  tower.prefix = "model.vision_tower.";
  tower.qkv_bias = vision.flag({"attention_bias"}, false);
  if (vision.text({"norm_type"}, "layer_norm") == "rms_norm") tower.norm = NormKind::rms;
  tower.norm_after = false;
  tower.o = "attention.projection_layer";
  tower.qk_norm = vision.flag({"use_qk_norm"}, false);
  tower.scales = 2 * tower.hidden;
  tower.class_tokens = 1;
  if (vision.flag({"use_absolute_position_embeddings"}, true)) {
    tower.positions = grid.patches() + 1;
  }
  model.image = ImageShape{.usual = {1, grid.side, grid.side}, .class_tokens = 1, .merge = merge};
  return tower;
}

void build_internvl(const Fields& config, ModelSpec& model) {
  std::uint64_t out = config.section({"text_config"}).size({"hidden_size"}, 4096);
  if (has_vision(config, model)) {
    double ratio = config.number({"downsample_ratio"}, 0.5);
    bool sane = ratio >= 0.01 && ratio <= 1;
    if (!sane) config.complain("downsample_ratio", "not from 0.01 to 1");
    std::uint64_t merge = sane ? static_cast<std::uint64_t>(1 / ratio) : 1;
    Fields vision = config.section({"vision_config"});
    Tower tower = read_intern_tower(vision, model, merge);
    add_tower(model, tower);
    std::uint64_t wide = tower.hidden * merge * merge;
    LayerKind projector;
    // The class keeps this token in the tower, next to the patches.
    if (vision.flag({"use_mask_token"}, false)) {
      add_vision_weights(projector, "mask_token", tower.hidden);
    }
    if (!vision.flag({"use_mean_pooling"}, true)) {
      add_vision_weights(projector, "layernorm", 2 * tower.hidden);
    }
    add_vision_weights(projector, "layer_norm", 2 * wide);
    add_vision_linear(projector, "linear_1", wide, out, true, Rows::merged);
    add_vision_linear(projector, "linear_2", out, out, true, Rows::merged);
    model.stages.push_back(
        single_stage("model.multi_modal_projector.", Stream::vision, std::move(projector)));
  }
  add_text_decoder(config, model, "qwen2", true);
}

void build_idefics3(const Fields& config, ModelSpec& model) {
  std::uint64_t out = config.section({"text_config"}).size({"hidden_size"}, 4096);
  if (has_vision(config, model)) {
    Fields vision = config.section({"vision_config"});
    PatchGrid grid = read_patch_grid(vision, 224, 32);
    Tower tower = read_tower(vision, grid, {1152, 12, 16, 3072});
    tower.prefix = "model.vision_model.";
    tower.positions = grid.patches();
    std::uint64_t merge = config.size({"scale_factor"}, 2);
    model.image = ImageShape{.usual = {1, grid.side, grid.side}, .merge = merge};
    add_tower(model, tower);
    LayerKind projector;
    add_vision_linear(projector, "modality_projection.proj", tower.hidden * merge * merge, out,
                      false, Rows::merged);
    model.stages.push_back(single_stage("model.connector.", Stream::vision, std::move(projector)));
  }
  add_text_decoder(config, model, "llama", false);
}

}  // namespace

std::span<const Family> internvl_families() {
  static constexpr Family kFamilies[] = {
      {"internvl", build_internvl}, {"idefics3", build_idefics3}, {"smolvlm", build_idefics3}};
  return kFamilies;
}

}  // namespace mfu
