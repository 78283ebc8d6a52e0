// The text part of Gemma 4. Full-attention layers have wider heads, the last layers share keys and
// values, each layer has a small table of its own, and some sizes have experts next to the MLP.
#include "model/families.h"

namespace mfu {
namespace {

struct Gemma4 {
  Decoder decoder;
  AttentionBlock sliding, full;
  std::uint64_t shared_from = 0;  // first layer that reuses another's keys and values
  bool wide_when_shared = false;  // the MLP of these layers is twice as wide
  std::uint64_t layer_input = 0;  // width of each layer's table
  bool moe = false;
};

// Makes one of the kinds of layers: with full attention or a window, with own or shared keys and
// values.
LayerKind make_layer(const Gemma4& gemma, bool full, bool shared) {
  LayerKind layer;
  std::uint64_t h = gemma.decoder.hidden;
  AttentionBlock attention = full ? gemma.full : gemma.sliding;
  attention.shares_kv = shared;
  add_norm(layer, "input_layernorm", NormKind::rms, h);
  add_attention(layer, attention, {.prefix = "self_attn."});
  add_weights(layer, "post_attention_layernorm", Part::norm, h, wire::stream);
  add_norm(layer, "pre_feedforward_layernorm", NormKind::rms, h);
  MlpBlock mlp = gemma.decoder.mlp;
  if (shared && gemma.wide_when_shared) mlp.width *= 2;
  add_mlp(layer, mlp, {.prefix = "mlp."});
  if (gemma.moe) {
    for (std::string_view name : {"post_feedforward_layernorm_1", "post_feedforward_layernorm_2",
                                  "pre_feedforward_layernorm_2"}) {
      add_weights(layer, name, Part::norm, h, wire::stream);
    }
    add_weights(layer, "router.scale", Part::router, h, wire::stream);
    add_weights(layer, "router.per_expert_scale", Part::router, gemma.decoder.experts.experts,
                wire::stream);
    add_experts(layer, gemma.decoder.experts, {.reads = wire::stream});
  }
  add_weights(layer, "post_feedforward_layernorm", Part::norm, h, wire::stream);
  if (gemma.layer_input != 0) {
    add_linear(layer, Part::mlp,
               {"per_layer_input_gate", h, gemma.layer_input, false, wire::stream, wire::inner});
    add_linear(layer, Part::mlp,
               {"per_layer_projection", gemma.layer_input, h, false, wire::inner, wire::stream});
    add_weights(layer, "post_per_layer_input_norm", Part::norm, h, wire::stream);
  }
  return layer;
}

Gemma4 read_gemma4(const Fields& config) {
  Gemma4 gemma;
  gemma.decoder = read_decoder(config, {.hidden = 2304,
                                        .layers = 30,
                                        .heads = 8,
                                        .kv_heads = 4,
                                        .head_dim = 256,
                                        .ffn = 9216,
                                        .vocab = 262144,
                                        .tied = true});
  bool bias = config.flag({"attention_bias"}, false);
  gemma.sliding = gemma.decoder.attention;
  set_biases(gemma.sliding, bias, bias);
  gemma.sliding.q_norm = gemma.sliding.k_norm = gemma.sliding.head_dim;
  gemma.sliding.mask = {MaskKind::window, config.size({"sliding_window"}, 512)};
  gemma.full = gemma.sliding;
  gemma.full.mask = {};
  if (config.text({"use_bidirectional_attention"}, "") == "all") {
    gemma.full.mask.kind = MaskKind::bidirectional;
    gemma.sliding.mask = {MaskKind::local, gemma.sliding.mask.size / 2};
  }
  gemma.full.head_dim = config.size({"global_head_dim"}, 512);
  gemma.full.q_norm = gemma.full.k_norm = gemma.full.head_dim;
  gemma.full.values_are_keys = config.flag({"attention_k_eq_v"}, false);
  if (gemma.full.values_are_keys) {
    gemma.full.kv_heads = config.size({"num_global_key_value_heads"}, gemma.full.kv_heads);
  }
  std::uint64_t shared = config.count({"num_kv_shared_layers"}, 0);
  if (shared >= gemma.decoder.layers && shared != 0) {
    config.complain("num_kv_shared_layers", "not fewer than num_hidden_layers");
    shared = 0;
  }
  gemma.shared_from = gemma.decoder.layers - shared;
  gemma.wide_when_shared = config.flag({"use_double_wide_mlp"}, false);
  gemma.layer_input = config.count({"hidden_size_per_layer_input"}, 256);
  gemma.moe = config.flag({"enable_moe_block"}, false);
  if (gemma.moe) {
    gemma.decoder.experts.hidden = gemma.decoder.hidden;
    gemma.decoder.experts.experts = config.layers({"num_experts"}, 0);
    gemma.decoder.experts.active = config.count({"top_k_experts"}, 0);
    gemma.decoder.experts.width = config.size({"moe_intermediate_size"}, 1);
    gemma.decoder.experts.router = "router.proj";
  }
  return gemma;
}

void build_gemma4(const Fields& config, ModelSpec& model) {
  Gemma4 gemma = read_gemma4(config);
  const Decoder& decoder = gemma.decoder;
  std::vector<Mask> masks = read_masks(config, decoder.layers, {MaskKind::window, 1},
                                       [](std::uint64_t layer) { return (layer + 1) % 6 != 0; });
  if (!masks.empty()) masks.back() = {};  // the class always makes the last layer a full one
  std::vector<LayerKind> kinds;
  for (std::uint32_t kind = 0; kind < 4; ++kind) {
    kinds.push_back(make_layer(gemma, kind & 1, kind & 2));
  }
  std::vector<std::uint32_t> order;
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    bool full = masks[i].kind == MaskKind::causal;
    order.push_back((full ? 1u : 0u) + (i >= gemma.shared_from ? 2u : 0u));
  }
  std::size_t first = model.stages.size();  // after the towers, in a whole model
  add_decoder_frame(config, decoder,
                    layer_stage("model.layers.", Stream::text, std::move(kinds), order), model);
  if (gemma.layer_input == 0) return;
  LayerKind& tables = model.stages[first].kinds[0];
  std::uint64_t width = decoder.layers * gemma.layer_input;
  std::uint64_t rows = config.size({"vocab_size_per_layer_input"}, 262144);
  add_weights(tables, "embed_tokens_per_layer", Part::embedding, rows * width, wire::inner);
  add_linear(
      tables, Part::mlp,
      {"per_layer_model_projection", decoder.hidden, width, false, wire::stream, wire::inner});
  add_weights(tables, "per_layer_projection_norm", Part::norm, gemma.layer_input, wire::inner);
}

}  // namespace

std::span<const Family> gemma4_families() {
  static constexpr Family kFamilies[] = {{"gemma4_text", build_gemma4}};
  return kFamilies;
}

}  // namespace mfu
