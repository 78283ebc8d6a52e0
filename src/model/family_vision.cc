// Vision transformers without a text part: ViT, the towers of CLIP and SigLIP, DINOv2.
#include "model/families.h"
#include "model/tower.h"

namespace mfu {
namespace {

void add_picture_head(ModelSpec& model, std::string_view name, std::uint64_t in,
                      std::uint64_t out) {
  LayerKind head;
  add_vision_linear(head, name, in, out, true, Rows::images);
  head.components[0].part = Part::head;
  model.stages.push_back(single_stage("", Stream::vision, std::move(head)));
}

void build_vit(const Fields& config, ModelSpec& model) {
  PatchGrid grid = read_patch_grid(config, 224, 16);
  Tower tower = read_tower(config, grid);
  tower.prefix = "vit.";
  tower.qkv_bias = config.flag({"qkv_bias"}, true);
  tower.class_tokens = 1;
  tower.positions = grid.patches() + 1;
  model.hidden = tower.hidden;
  model.ffn = tower.ffn;
  model.vision_only = true;
  model.image = ImageShape{.usual = {1, grid.side, grid.side}, .class_tokens = 1};
  add_tower(model, tower);
  if (model.architecture.ends_with("ForImageClassification")) {
    add_picture_head(model, "classifier", tower.hidden, labels_of(config));
  } else {
    add_picture_head(model, "pooler.dense", tower.hidden,
                     config.size({"pooler_output_size"}, tower.hidden));
  }
}

void build_clip_vision(const Fields& config, ModelSpec& model) {
  Tower tower = read_clip_tower(config, model);
  tower.prefix = "vision_model.";
  model.hidden = tower.hidden;
  model.ffn = tower.ffn;
  model.vision_only = true;
  add_tower(model, tower);
}

void build_siglip_vision(const Fields& config, ModelSpec& model) {
  Tower tower = read_siglip_tower(config, model);
  tower.prefix = "vision_model.";
  model.hidden = tower.hidden;
  model.ffn = tower.ffn;
  model.vision_only = true;
  add_tower(model, tower);
  if (tower.pooling_head) add_siglip_head(model, tower);
}

}  // namespace

std::span<const Family> vision_families() {
  static constexpr Family kFamilies[] = {{"vit", build_vit},
                                         {"clip_vision_model", build_clip_vision},
                                         {"siglip_vision_model", build_siglip_vision}};
  return kFamilies;
}

}  // namespace mfu
