// A vision tower, a projector and a decoder: Qwen-VL 2, 2.5 and 3, Gemma 3, LLaVA, PaliGemma, Llama
// 4.
#include "model/families.h"
#include "model/mask.h"
#include "model/tower.h"

namespace mfu {

// Adds the decoder of a multimodal config, from its text_config or from the top level of older
// files. The outer class decides whether the head is tied.
void add_text_decoder(const Fields& config, ModelSpec& model, std::string_view fallback_type,
                      std::optional<bool> tied) {
  bool nested = config.has("text_config");
  Fields text = nested ? config.section({"text_config"}) : config;
  if (nested && tied) config.copy_down("text_config", "tie_word_embeddings", *tied);
  std::string type = nested ? text.text({"model_type"}, fallback_type) : std::string(fallback_type);
  const Family* family = find_family(type);
  if (family == nullptr) {
    config.complain("text_config.model_type", "\"" + type + "\" is not a known decoder");
    return;
  }
  std::string outer = model.type;
  model.type = type;
  family->build(text, model);
  model.type = outer;
}

bool has_vision(const Fields& config, ModelSpec& model) {
  if (config.has("vision_config")) return true;
  model.notes.push_back({"no_vision_config", {}});
  return false;
}

std::vector<Attention*> text_attentions(ModelSpec& model, std::size_t first) {
  std::vector<Attention*> all;
  for (std::size_t i = first; i < model.stages.size(); ++i) {
    for (LayerKind& kind : model.stages[i].kinds) {
      for (Component& component : kind.components) {
        if (auto* attention = std::get_if<Attention>(&component.work)) all.push_back(attention);
      }
    }
  }
  return all;
}

namespace {

// Whether the head is tied. These classes tie it if either of their two configs says so.
std::optional<bool> tied_by_either(const Fields& config) {
  if (config.flag({"tie_word_embeddings"}, false)) return true;
  return std::nullopt;
}

struct Merger {
  std::string_view prefix;
  std::uint64_t hidden = 0, merge = 2, out = 0, norm = 0;
};
// Joins m x m neighbouring patches, through two matrices.
LayerKind merger_layer(const Merger& merger) {
  LayerKind layer;
  std::uint64_t wide = merger.hidden * merger.merge * merger.merge;
  add_vision_weights(layer, "norm", merger.norm);
  add_vision_linear(layer, "mlp.0", wide, wide, true, Rows::merged);
  add_vision_linear(layer, "mlp.2", wide, merger.out, true, Rows::merged);
  return layer;
}

Tower read_qwen_tower(const Fields& vision, std::uint64_t patch, std::uint64_t hidden) {
  Tower tower;
  tower.prefix = "model.visual.";
  tower.hidden = hidden;
  tower.layers = vision.layers({"depth"}, 32);
  tower.heads = vision.size({"num_heads"}, 16);
  vision.head_width(tower.hidden, tower.heads);
  std::uint64_t side = vision.size({"patch_size", "spatial_patch_size"}, patch);
  tower.patch_inputs = vision.size({"in_channels", "in_chans"}, 3) *
                       vision.size({"temporal_patch_size"}, 2) * side * side;
  tower.patch_bias = false;
  tower.fused_qkv = true;
  tower.o = "attn.proj";
  tower.norm_after = false;
  return tower;
}

void build_qwen2_vl(const Fields& config, ModelSpec& model) {
  if (has_vision(config, model)) {
    Fields vision = config.section({"vision_config"});
    std::uint64_t hidden = vision.size({"embed_dim"}, 1280);
    Tower tower = read_qwen_tower(vision, 14, hidden);
    tower.ffn = vision.size({"mlp_ratio"}, 4) * hidden;
    std::uint64_t merge = vision.size({"spatial_merge_size"}, 2);
    model.image = ImageShape{.merge = merge};
    add_tower(model, tower);
    Merger merger{"merger.", hidden, merge, vision.size({"hidden_size"}, 3584), 2 * hidden};
    model.stages.push_back(
        single_stage("model.visual.merger.", Stream::vision, merger_layer(merger)));
  }
  add_text_decoder(config, model, "qwen2_vl_text", tied_by_either(config));
}

// All but a few layers have windows of window_size pixels.
void build_qwen2_5_vl(const Fields& config, ModelSpec& model) {
  if (has_vision(config, model)) {
    Fields vision = config.section({"vision_config"});
    std::uint64_t hidden = vision.size({"hidden_size"}, 3584);
    Tower tower = read_qwen_tower(vision, 14, hidden);
    tower.ffn = vision.size({"intermediate_size"}, 3420);
    tower.norm = NormKind::rms;
    tower.gated = true;
    tower.up = "mlp.up_proj";
    tower.down = "mlp.down_proj";
    std::uint64_t merge = vision.size({"spatial_merge_size"}, 2);
    std::uint64_t patch = vision.size({"patch_size"}, 14);
    tower.block = vision.size({"window_size"}, 112) / merge / patch * merge;
    tower.global = vision.counts({"fullatt_block_indexes"});
    if (!vision.has("fullatt_block_indexes")) tower.global = {7, 15, 23, 31};
    model.image = ImageShape{.merge = merge};
    add_tower(model, tower);
    Merger merger{"merger.", hidden, merge, vision.size({"out_hidden_size"}, 3584), hidden};
    model.stages.push_back(
        single_stage("model.visual.merger.", Stream::vision, merger_layer(merger)));
  }
  add_text_decoder(config, model, "qwen2_5_vl_text", tied_by_either(config));
}

// Qwen3-VL has learned positions. Mergers inside the tower feed the first decoder layers.
void add_qwen3_vision(const Fields& config, ModelSpec& model, bool deepstack) {
  if (!has_vision(config, model)) return;
  Fields vision = config.section({"vision_config"});
  std::uint64_t hidden = vision.size({"hidden_size"}, 1152);
  Tower tower = read_qwen_tower(vision, 16, hidden);
  tower.layers = vision.layers({"depth"}, 27);
  tower.ffn = vision.size({"intermediate_size"}, 4304);
  tower.patch_bias = true;
  tower.positions = vision.size({"num_position_embeddings"}, 2304);
  std::uint64_t merge = vision.size({"spatial_merge_size"}, 2);
  std::uint64_t out = vision.size({"out_hidden_size"}, 3584);
  model.image = ImageShape{.merge = merge};
  add_tower(model, tower);
  model.stages.push_back(single_stage("model.visual.merger.", Stream::vision,
                                      merger_layer({"merger.", hidden, merge, out, 2 * hidden})));
  if (!deepstack) return;
  std::uint64_t mergers = vision.has("deepstack_visual_indexes")
                              ? vision.counts({"deepstack_visual_indexes"}).size()
                              : 3;
  Merger after{"deepstack.", hidden, merge, out, 2 * hidden * merge * merge};
  Stage stage = uniform_stage("model.visual.deepstack_merger_list.", Stream::vision,
                              merger_layer(after), mergers);
  model.stages.push_back(std::move(stage));
}

void build_qwen3_vl(const Fields& config, ModelSpec& model) {
  add_qwen3_vision(config, model, true);
  add_text_decoder(config, model, "qwen3_vl_text", false);
}
void build_qwen3_vl_moe(const Fields& config, ModelSpec& model) {
  add_qwen3_vision(config, model, true);
  add_text_decoder(config, model, "qwen3_vl_moe_text", false);
}
void build_qwen3_5_seeing(const Fields& config, ModelSpec& model) {
  add_qwen3_vision(config, model, false);
  add_text_decoder(config, model, "qwen3_5_text", false);
}
void build_qwen3_5_moe_seeing(const Fields& config, ModelSpec& model) {
  add_qwen3_vision(config, model, false);
  add_text_decoder(config, model, "qwen3_5_moe_text", false);
}

// The decoder gets the patches, not the output of a pooling head.
void add_picture_tower(ModelSpec& model, Tower& tower) {
  tower.prefix = "model.vision_tower.";
  add_tower(model, tower);
  if (tower.pooling_head) add_siglip_head(model, tower, false);
}

// Patches are averaged down to mm_tokens_per_image, then go through one matrix. In the text, the
// tokens of a picture see each other.
void build_gemma3_seeing(const Fields& config, ModelSpec& model) {
  std::uint64_t out = config.section({"text_config"}).size({"hidden_size"}, 2304);
  if (has_vision(config, model)) {
    Fields vision = config.section({"vision_config"});
    Tower tower = read_siglip_tower(vision, model);
    model.image->tokens = config.size({"mm_tokens_per_image"}, 256);
    add_picture_tower(model, tower);
    LayerKind projector;
    add_vision_weights(projector, "mm_soft_emb_norm", tower.hidden);
    add_vision_linear(projector, "mm_input_projection", tower.hidden, out, false, Rows::merged);
    model.stages.push_back(
        single_stage("model.multi_modal_projector.", Stream::vision, std::move(projector)));
  }
  std::size_t first = model.stages.size();
  add_text_decoder(config, model, "gemma3_text", true);
  for (Attention* attention : text_attentions(model, first)) attention->pictures_whole = true;
}

// Pixtral's tower: RMS norms, gated MLP, no biases, rotary positions.
Tower read_pixtral_tower(const Fields& config, ModelSpec& model) {
  PatchGrid grid = read_patch_grid(config, 1540, 14);
  Tower tower = read_tower(config, grid, {1024, 24, 16, 4096});
  tower.patch_bias = tower.qkv_bias = tower.out_bias = tower.mlp_bias = false;
  tower.norm = NormKind::rms;
  tower.norm_before = true;
  tower.norm_after = false;
  tower.gated = true;
  tower.o = "self_attn.o_proj";
  tower.up = "mlp.up_proj";
  tower.down = "mlp.down_proj";
  model.image = ImageShape{.usual = {1, grid.side, grid.side}};
  return tower;
}

Tower read_any_tower(const Fields& vision, ModelSpec& model, std::string_view fallback) {
  std::string type = vision.text({"model_type"}, fallback);
  if (type == "clip_vision_model") return read_clip_tower(vision, model);
  if (type == "pixtral") return read_pixtral_tower(vision, model);
  if (type != "siglip_vision_model") {
    vision.complain("model_type", "\"" + type + "\" is not a known vision tower");
  }
  return read_siglip_tower(vision, model);
}

struct Llava {
  std::string_view tower, decoder;
  std::uint64_t decoder_hidden;
  bool newline;          // a learned vector at the end of each row of patches
  std::uint64_t layers;  // of the tower, joined side by side; above 1 also with a norm
};

void add_llava(const Fields& config, const Llava& kind, ModelSpec& model) {
  std::uint64_t out = config.section({"text_config"}).size({"hidden_size"}, kind.decoder_hidden);
  if (has_vision(config, model)) {
    Tower tower = read_any_tower(config.section({"vision_config"}), model, kind.tower);
    add_picture_tower(model, tower);
    bool bias = config.flag({"multimodal_projector_bias"}, true);
    std::uint64_t in = tower.hidden * kind.layers;
    LayerKind projector;
    if (model.type == "vipllava") add_vision_weights(projector, "projector_layernorm", 2 * in);
    add_vision_linear(projector, "linear_1", in, out, bias, Rows::merged);
    add_vision_linear(projector, "linear_2", out, out, bias, Rows::merged);
    if (kind.newline) add_vision_weights(projector, "image_newline", out);
    model.stages.push_back(
        single_stage("model.multi_modal_projector.", Stream::vision, std::move(projector)));
  }
  bool either = model.type == "llava" || model.type == "llava_onevision";
  add_text_decoder(config, model, kind.decoder, either ? tied_by_either(config) : false);
}

// The features of one layer of the tower, or of several side by side.
std::uint64_t features_of(const Fields& config, std::string_view name, std::uint64_t fallback) {
  std::uint64_t listed = config.members(name);
  if (listed > 0) return listed;
  return config.has(name) ? 1 : fallback;
}

void build_llava(const Fields& config, ModelSpec& model) {
  std::uint64_t layers = features_of(config, "vision_feature_layer", 1);
  add_llava(config, {"clip_vision_model", "llama", 4096, model.type == "llava_next", layers},
            model);
}
void build_llava_onevision(const Fields& config, ModelSpec& model) {
  std::uint64_t layers = features_of(config, "vision_feature_layer", 1);
  add_llava(config, {"siglip_vision_model", "qwen2", 4096, true, layers}, model);
}
void build_vipllava(const Fields& config, ModelSpec& model) {
  std::uint64_t layers = features_of(config, "vision_feature_layers", 5);
  add_llava(config, {"clip_vision_model", "llama", 4096, false, layers}, model);
}

void build_paligemma(const Fields& config, ModelSpec& model) {
  std::uint64_t out = config.section({"text_config"}).size({"hidden_size"}, 2048);
  if (has_vision(config, model)) {
    Tower tower = read_any_tower(config.section({"vision_config"}), model, "siglip_vision_model");
    add_picture_tower(model, tower);
    LayerKind projector;
    add_vision_linear(projector, "linear", tower.hidden, out, true, Rows::merged);
    model.stages.push_back(
        single_stage("model.multi_modal_projector.", Stream::vision, std::move(projector)));
  }
  std::size_t first = model.stages.size();
  add_text_decoder(config, model, "gemma", true);
  // Pictures and prompt see each other. Generated tokens see what came before them.
  for (Attention* attention : text_attentions(model, first)) {
    if (attention->mask.kind == MaskKind::causal) {
      attention->mask = {MaskKind::prefix, kPromptPrefix};
    }
  }
  model.notes.push_back({"prompt_sees_itself", {}});
}

void build_mistral3(const Fields& config, ModelSpec& model) {
  std::uint64_t out = config.section({"text_config"}).size({"hidden_size"}, 5120);
  if (has_vision(config, model)) {
    Tower tower = read_pixtral_tower(config.section({"vision_config"}), model);
    std::uint64_t merge = config.size({"spatial_merge_size"}, 2);
    model.image->merge = merge;
    add_picture_tower(model, tower);
    bool bias = config.flag({"multimodal_projector_bias"}, false);
    LayerKind projector;
    add_vision_weights(projector, "norm", tower.hidden);
    add_vision_linear(projector, "patch_merger.merging_layer", tower.hidden * merge * merge,
                      tower.hidden, false, Rows::merged);
    add_vision_linear(projector, "linear_1", tower.hidden, out, bias, Rows::merged);
    add_vision_linear(projector, "linear_2", out, out, bias, Rows::merged);
    model.stages.push_back(
        single_stage("model.multi_modal_projector.", Stream::vision, std::move(projector)));
  }
  add_text_decoder(config, model, "mistral", true);
}

// Patches unfold into the tower. Then pixels are shuffled into fewer, wider tokens.
void build_llama4_seeing(const Fields& config, ModelSpec& model) {
  if (has_vision(config, model)) {
    Fields vision = config.section({"vision_config"});
    PatchGrid grid = read_patch_grid(vision, 448, 14);
    Tower tower = read_tower(vision, grid, {768, 34, 16, 5632});
    tower.prefix = "vision_model.";
    tower.patch_bias = false;
    tower.class_tokens = 1;
    tower.positions = grid.patches() + 1;
    tower.norm_before = true;
    double ratio = vision.number({"pixel_shuffle_ratio"}, 0.5);
    bool whole = ratio > 0 && ratio <= 1;
    std::uint64_t merge = whole ? static_cast<std::uint64_t>(1 / ratio) : 1;
    if (!whole) vision.complain("pixel_shuffle_ratio", "not from 0 to 1");
    model.image = ImageShape{.usual = {1, grid.side, grid.side}, .class_tokens = 1, .merge = merge};
    add_tower(model, tower);
    std::uint64_t in = vision.size({"projector_input_dim"}, 4096);
    std::uint64_t out = vision.size({"projector_output_dim"}, 4096);
    LayerKind projector;
    // The class takes the width of fc1 from the MLP. That width must be hidden_size · merge².
    add_vision_linear(projector, "vision_adapter.mlp.fc1", tower.ffn, in, false, Rows::merged);
    add_vision_linear(projector, "vision_adapter.mlp.fc2", out, out, false, Rows::merged);
    add_vision_linear(
        projector, "multi_modal_projector.linear_1", vision.size({"vision_output_dim"}, 7680),
        config.section({"text_config"}).size({"hidden_size"}, 5120), false, Rows::merged);
    model.stages.push_back(single_stage("vision_model.", Stream::vision, std::move(projector)));
  }
  add_text_decoder(config, model, "llama4_text", std::nullopt);
}

}  // namespace

std::span<const Family> multimodal_families() {
  static constexpr Family kFamilies[] = {
      {"qwen2_vl", build_qwen2_vl},
      {"qwen2_5_vl", build_qwen2_5_vl},
      {"qwen3_vl", build_qwen3_vl},
      {"qwen3_vl_moe", build_qwen3_vl_moe},
      {"qwen3_5", build_qwen3_5_seeing},
      {"qwen3_5_moe", build_qwen3_5_moe_seeing},
      {"gemma3", build_gemma3_seeing},
      {"llava", build_llava},
      {"llava_next", build_llava},
      {"paligemma", build_paligemma},
      {"llama4", build_llama4_seeing},
      {"mistral3", build_mistral3},
      {"llava_onevision", build_llava_onevision},
      {"vipllava", build_vipllava},
  };
  return kFamilies;
}

}  // namespace mfu
