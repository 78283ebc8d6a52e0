// CLIP (arXiv 2103.00020) and SigLIP (arXiv 2303.15343): a tower for pictures and a tower for
// texts, joined only by the dot product of every text with every picture.
#include <utility>

#include "model/families.h"
#include "model/tower.h"

namespace mfu {
namespace {

struct TextDefaults {
  std::uint64_t hidden = 0, heads = 0, ffn = 0, vocab = 0, positions = 0;
  MaskKind mask = MaskKind::causal;
};
constexpr TextDefaults kClip{512, 8, 2048, 49408, 77, MaskKind::causal};
constexpr TextDefaults kSiglip{768, 12, 3072, 32000, 64, MaskKind::bidirectional};

// Returns the width of the tower.
std::uint64_t add_text_tower(const Fields& text, const TextDefaults& defaults, ModelSpec& model) {
  Decoder decoder = read_decoder(text, {.hidden = defaults.hidden,
                                        .layers = 12,
                                        .heads = defaults.heads,
                                        .ffn = defaults.ffn,
                                        .vocab = defaults.vocab});
  decoder.prefix = "text_model.";
  decoder.norm = NormKind::layer;
  decoder.positions = text.size({"max_position_embeddings"}, defaults.positions);
  decoder.masks.assign(decoder.layers, Mask{defaults.mask, 0});
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
  return decoder.hidden;
}

// The last matrix of the text tower. If there is a picture tower, also the single scalars and the
// dot products.
void add_text_head(ModelSpec& model, const Linear& linear, std::uint64_t scalars) {
  LayerKind head;
  add_linear(head, Part::head, linear, {.rows = Rows::sequences});
  if (scalars != 0) {
    add_weights(head, "logit_scale", Part::head, scalars, wire::inner);
    Attention meeting{.mask = {MaskKind::bidirectional, 0},
                      .rows = Rows::images,
                      .heads = 1,
                      .kv_heads = 1,
                      .qk_dim = linear.out,
                      .v_dim = 0,
                      .cached = false};
    head.components.push_back({.name = "logits",
                               .part = Part::head,
                               .reads = wire::query | wire::key,
                               .writes = wire::inner,
                               .work = meeting});
  }
  model.stages.push_back(single_stage("", Stream::text, std::move(head)));
}

void build_clip(const Fields& config, ModelSpec& model) {
  Tower tower = read_clip_tower(config.section({"vision_config"}), model);
  tower.prefix = "vision_model.";
  add_tower(model, tower);
  std::uint64_t width = config.size({"projection_dim"}, 512);
  LayerKind picture;
  add_vision_linear(picture, "visual_projection", tower.hidden, width, false, Rows::images);
  model.stages.push_back(single_stage("", Stream::vision, std::move(picture)));
  std::uint64_t hidden = add_text_tower(config.section({"text_config"}), kClip, model);
  add_text_head(model, {"text_projection", hidden, width}, 1);
}

void build_siglip(const Fields& config, ModelSpec& model) {
  Fields vision = config.section({"vision_config"});
  Tower tower = read_siglip_tower(vision, model);
  tower.prefix = "vision_model.";
  add_tower(model, tower);
  if (tower.pooling_head) add_siglip_head(model, tower);
  Fields text = config.section({"text_config"});
  std::uint64_t hidden = add_text_tower(text, kSiglip, model);
  add_text_head(model, {"text_model.head", hidden, text.size({"projection_size"}, hidden), true},
                2);
}

void build_clip_text(const Fields& config, ModelSpec& model) {
  std::uint64_t hidden = add_text_tower(config, kClip, model);
  if (!model.architecture.ends_with("WithProjection")) return;
  add_text_head(model, {"text_projection", hidden, config.size({"projection_dim"}, 512)}, 0);
}

void build_siglip_text(const Fields& config, ModelSpec& model) {
  std::uint64_t hidden = add_text_tower(config, kSiglip, model);
  add_text_head(model, {"head", hidden, config.size({"projection_size"}, hidden), true}, 0);
}

}  // namespace

std::span<const Family> contrastive_families() {
  static constexpr Family kFamilies[] = {{"clip", build_clip},
                                         {"siglip", build_siglip},
                                         {"clip_text_model", build_clip_text},
                                         {"siglip_text_model", build_siglip_text}};
  return kFamilies;
}

}  // namespace mfu
