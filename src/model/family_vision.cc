// Vision transformers on their own: ViT, CLIP's and SigLIP's towers, DINOv2.
#include <utility>

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
  Tower tower;
  tower.prefix = "vit.";
  tower.hidden = config.size({"hidden_size"}, 768);
  tower.layers = config.layers({"num_hidden_layers"}, 12);
  tower.heads = config.size({"num_attention_heads"}, 12);
  tower.ffn = config.size({"intermediate_size"}, 3072);
  tower.qkv_bias = config.flag({"qkv_bias"}, true);
  PatchGrid grid = read_patch_grid(config, 224, 16);
  tower.patch_inputs = config.size({"num_channels"}, 3) * grid.patch * grid.patch;
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

// The pooling head attends from one learned query over all patches.
void build_siglip_vision(const Fields& config, ModelSpec& model) {
  Tower tower = read_siglip_tower(config, model);
  tower.prefix = "vision_model.";
  model.hidden = tower.hidden;
  model.ffn = tower.ffn;
  model.vision_only = true;
  add_tower(model, tower);
  if (!config.flag({"vision_use_head"}, true)) return;
  std::uint64_t h = tower.hidden;
  LayerKind head;
  add_vision_weights(head, "probe", h);
  add_vision_linear(head, "attention.q", h, h, true, Rows::images);
  add_vision_linear(head, "attention.kv", h, 2 * h, true, Rows::tower);
  // Scores and values of one query a picture: 2 h multiply-adds a patch.
  add_vision_linear(head, "attention.scores", 1, 2 * h, false, Rows::tower);
  std::get<Projection>(head.components.back().work).stored = false;
  add_vision_linear(head, "attention.out_proj", h, h, true, Rows::images);
  add_vision_weights(head, "layernorm", 2 * h);
  add_vision_linear(head, "mlp.fc1", h, tower.ffn, true, Rows::images);
  add_vision_linear(head, "mlp.fc2", tower.ffn, h, true, Rows::images);
  model.stages.push_back(single_stage("vision_model.head.", Stream::vision, std::move(head)));
}

// Two towers that never meet but in a dot product; the text one is causal.
void build_clip(const Fields& config, ModelSpec& model) {
  Fields text = config.section({"text_config"});
  Tower tower = read_clip_tower(config.section({"vision_config"}), model);
  tower.prefix = "vision_model.";
  add_tower(model, tower);
  std::uint64_t width = config.size({"projection_dim"}, 512);
  LayerKind picture;
  add_vision_linear(picture, "visual_projection", tower.hidden, width, false, Rows::images);
  model.stages.push_back(single_stage("", Stream::vision, std::move(picture)));
  Decoder decoder =
      read_decoder(text, {.hidden = 512, .layers = 12, .heads = 8, .ffn = 2048, .vocab = 49408});
  decoder.prefix = "text_model.";
  decoder.norm = NormKind::layer;
  decoder.positions = text.size({"max_position_embeddings"}, 77);
  set_biases(decoder.attention, true, true);
  decoder.attention.o = "out_proj";
  decoder.mlp.gated = false;
  decoder.mlp.bias = true;
  decoder.mlp.up = "fc1";
  decoder.mlp.down = "fc2";
  std::string architecture = std::exchange(model.architecture, "Model");
  build_decoder(text, decoder, model);
  model.architecture = architecture;
  model.encoder_only = true;
  LayerKind head;
  add_linear(head, Part::head, {"text_projection", decoder.hidden, width},
             {.rows = Rows::sequences});
  add_weights(head, "logit_scale", Part::head, 1, wire::inner);
  model.stages.push_back(single_stage("", Stream::text, std::move(head)));
}

constexpr Family kFamilies[] = {{"vit", build_vit},
                                {"clip", build_clip},
                                {"clip_vision_model", build_clip_vision},
                                {"siglip_vision_model", build_siglip_vision}};

}  // namespace

std::span<const Family> vision_families() {
  return kFamilies;
}

}  // namespace mfu
