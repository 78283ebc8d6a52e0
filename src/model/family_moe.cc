// Decoders with routed experts and ordinary attention.
#include <algorithm>

#include "model/families.h"

namespace mfu {
namespace {

void set_experts(Decoder& decoder, std::uint64_t experts, std::uint64_t active,
                 std::uint64_t width) {
  decoder.experts.hidden = decoder.hidden;
  decoder.experts.experts = experts;
  decoder.experts.active = active;
  decoder.experts.width = width;
  decoder.is_moe.assign(decoder.layers, experts != 0);
}

void build_moe(const Fields& config, const Decoder& decoder, ModelSpec& model) {
  if (decoder.experts.active > decoder.experts.experts) {
    config.complain("num_experts_per_tok", "more than there are experts");
  }
  build_decoder(config, decoder, model);
}

// As in Qwen: every decoder_sparse_step-th layer, except those in mlp_only_layers.
void set_qwen_moe_layers(const Fields& config, Decoder& decoder) {
  std::vector<std::uint64_t> dense = config.counts({"mlp_only_layers"});
  std::uint64_t step = config.size({"decoder_sparse_step"}, 1);
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    bool listed = std::find(dense.begin(), dense.end(), i) != dense.end();
    decoder.is_moe[i] = !listed && decoder.experts.experts != 0 && (i + 1) % step == 0;
  }
}

void set_dense_first(const Fields& config, Decoder& decoder, std::uint64_t fallback) {
  std::uint64_t dense = config.count({"first_k_dense_replace"}, fallback);
  for (std::uint64_t i = 0; i < std::min(dense, decoder.layers); ++i) decoder.is_moe[i] = false;
}

void build_mixtral(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .ffn = 14336});
  set_experts(decoder, config.layers({"num_local_experts"}, 8),
              config.count({"num_experts_per_tok"}, 2), decoder.mlp.width);
  std::uint64_t window = config.count({"sliding_window"}, 0);
  if (window != 0) decoder.masks.assign(decoder.layers, {MaskKind::window, window});
  build_moe(config, decoder, model);
}

void build_qwen2_moe(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(
      config,
      {.hidden = 2048, .layers = 24, .heads = 16, .kv_heads = 16, .ffn = 5632, .vocab = 151936});
  bool bias = config.flag({"qkv_bias"}, true);
  set_biases(decoder.attention, bias, false);
  set_experts(decoder, config.layers({"num_experts"}, 60), config.count({"num_experts_per_tok"}, 4),
              config.size({"moe_intermediate_size"}, 1408));
  decoder.experts.shared_width = config.size({"shared_expert_intermediate_size"}, 5632);
  decoder.experts.shared_gate = true;
  decoder.experts.shared = "shared_expert";
  set_qwen_moe_layers(config, decoder);
  if (config.flag({"use_sliding_window"}, false)) {
    std::uint64_t first = config.count({"max_window_layers"}, 28);
    Mask window{MaskKind::window, config.count({"sliding_window"}, 4096)};
    decoder.masks = read_masks(config, decoder.layers, window,
                               [first](std::uint64_t layer) { return layer >= first; });
  }
  build_moe(config, decoder, model);
}

void build_qwen3_moe(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(
      config,
      {.hidden = 2048, .layers = 24, .heads = 32, .kv_heads = 4, .ffn = 6144, .vocab = 151936});
  read_biases(config, "attention_bias", false, decoder.attention);
  per_head_norms(decoder);
  set_experts(decoder, config.layers({"num_experts", "num_local_experts"}, 128),
              config.count({"num_experts_per_tok"}, 8),
              config.size({"moe_intermediate_size"}, 768));
  set_qwen_moe_layers(config, decoder);
  std::uint64_t window = config.count({"sliding_window"}, 4096);
  if (config.flag({"use_sliding_window"}, false) && window != 0) {
    decoder.masks.assign(decoder.layers, {MaskKind::window, window});
  }
  build_moe(config, decoder, model);
}

void build_olmoe(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(
      config, {.hidden = 2048, .layers = 16, .heads = 16, .ffn = 2048, .vocab = 50304});
  read_biases(config, "attention_bias", false, decoder.attention);
  full_norms(decoder);
  set_experts(decoder, config.layers({"num_experts"}, 64), config.count({"num_experts_per_tok"}, 8),
              decoder.mlp.width);
  build_moe(config, decoder, model);
}

void build_flex_olmo(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.vocab = 100352});
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.plan = NormPlan::post;
  full_norms(decoder);
  set_experts(decoder, config.layers({"num_experts"}, 7), config.count({"num_experts_per_tok"}, 5),
              decoder.mlp.width);
  build_moe(config, decoder, model);
}

void build_granite_moe(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {});
  read_biases(config, "attention_bias", false, decoder.attention);
  set_experts(decoder, config.layers({"num_local_experts"}, 8),
              config.count({"num_experts_per_tok"}, 2), decoder.mlp.width);
  if (model.type == "granitemoeshared") {
    decoder.experts.shared_width = config.count({"shared_intermediate_size"}, 0);
  }
  build_moe(config, decoder, model);
}

void build_phimoe(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .ffn = 6400, .vocab = 32064});
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.norm = NormKind::layer;
  decoder.head_bias = config.flag({"lm_head_bias"}, false);
  set_experts(decoder, config.layers({"num_local_experts"}, 16),
              config.count({"num_experts_per_tok"}, 2), decoder.mlp.width);
  std::uint64_t window = config.count({"sliding_window"}, 0);
  if (window != 0) decoder.masks.assign(decoder.layers, {MaskKind::window, window});
  build_moe(config, decoder, model);
}

// Its layer norms have a weight but no bias, so they count like RMS norms.
void build_dbrx(const Fields& config, ModelSpec& model) {
  Fields attention = config.section({"attn_config"}), ffn = config.section({"ffn_config"});
  Decoder decoder;
  decoder.prefix = "transformer.";
  decoder.layers_name = "blocks.";
  decoder.embedding = "wte";
  decoder.attention_prefix = "norm_attn_norm.attn.";
  decoder.mlp_prefix = "ffn.";
  decoder.hidden = config.size({"d_model", "hidden_size"}, 2048);
  decoder.layers = config.layers({"n_layers", "num_hidden_layers"}, 24);
  decoder.vocab = config.size({"vocab_size"}, 32000);
  decoder.tied = config.flag({"tie_word_embeddings"}, false);
  decoder.attention.hidden = decoder.hidden;
  decoder.attention.heads = config.size({"n_heads", "num_attention_heads"}, 16);
  decoder.attention.kv_heads = attention.size({"kv_n_heads"}, 1);
  decoder.attention.head_dim = config.head_width(decoder.hidden, decoder.attention.heads);
  decoder.attention.fused = "Wqkv";
  decoder.attention.o = "out_proj";
  decoder.masks.assign(decoder.layers, Mask{});
  decoder.mlp.width = ffn.size({"ffn_hidden_size"}, 3584);
  decoder.experts.router = "router.layer";
  set_experts(decoder, ffn.layers({"moe_num_experts"}, 4), ffn.count({"moe_top_k"}, 1),
              decoder.mlp.width);
  build_moe(config, decoder, model);
}

void build_gpt_oss(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 2880,
                                          .layers = 36,
                                          .heads = 64,
                                          .kv_heads = 8,
                                          .head_dim = 64,
                                          .ffn = 2880,
                                          .vocab = 201088});
  read_biases(config, "attention_bias", true, decoder.attention);
  decoder.attention.sinks = decoder.attention.heads;
  set_experts(decoder, config.layers({"num_local_experts", "num_experts"}, 128),
              config.count({"num_experts_per_tok", "experts_per_token"}, 4), decoder.mlp.width);
  decoder.experts.bias = decoder.experts.router_bias = true;
  decoder.experts.router = "router";
  Mask window{MaskKind::window, config.count({"sliding_window"}, 128)};
  decoder.masks = read_masks(config, decoder.layers, window,
                             [](std::uint64_t layer) { return (layer + 1) % 2 != 0; });
  build_moe(config, decoder, model);
}

void build_glm4_moe(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(
      config, {.layers = 46, .heads = 96, .kv_heads = 8, .ffn = 10944, .vocab = 151552});
  set_biases(decoder.attention, config.flag({"attention_bias"}, false), false);
  if (config.flag({"use_qk_norm"}, false)) {
    per_head_norms(decoder);
  }
  std::uint64_t width = config.size({"moe_intermediate_size"}, 1408);
  set_experts(decoder, config.layers({"n_routed_experts"}, 128),
              config.count({"num_experts_per_tok"}, 8), width);
  decoder.experts.shared_width = width * config.layers({"n_shared_experts"}, 1);
  decoder.experts.correction_bias = true;
  set_dense_first(config, decoder, 1);
  build_moe(config, decoder, model);
}

void build_dots1(const Fields& config, ModelSpec& model) {
  Decoder decoder =
      read_decoder(config, {.hidden = 4608, .layers = 62, .ffn = 10944, .vocab = 152064});
  read_biases(config, "attention_bias", false, decoder.attention);
  per_head_norms(decoder);
  std::uint64_t width = config.size({"moe_intermediate_size"}, 1408);
  set_experts(decoder, config.layers({"n_routed_experts"}, 0),
              config.count({"num_experts_per_tok"}, 0), width);
  decoder.experts.shared_width = width * config.layers({"n_shared_experts"}, 0);
  decoder.experts.correction_bias = true;
  set_dense_first(config, decoder, 0);
  std::uint64_t first = config.count({"max_window_layers"}, 62);
  Mask window{MaskKind::window, config.count({"sliding_window"}, 4096)};
  decoder.masks = read_masks(config, decoder.layers, window,
                             [first](std::uint64_t layer) { return layer >= first; });
  build_moe(config, decoder, model);
}

void build_minimax_m2(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 3072,
                                          .layers = 62,
                                          .heads = 48,
                                          .kv_heads = 8,
                                          .head_dim = 128,
                                          .ffn = 1536,
                                          .vocab = 200064});
  full_norms(decoder);
  set_experts(decoder, config.layers({"num_local_experts"}, 256),
              config.count({"num_experts_per_tok"}, 8), decoder.mlp.width);
  decoder.experts.correction_bias = true;
  build_moe(config, decoder, model);
}

void build_ernie_moe(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 2560,
                                          .layers = 28,
                                          .heads = 20,
                                          .kv_heads = 4,
                                          .ffn = 12288,
                                          .vocab = 103424,
                                          .tied = true});
  bool bias = read_biases(config, "use_bias", false, decoder.attention);
  decoder.mlp.bias = bias;
  std::uint64_t width = config.size({"moe_intermediate_size"}, 1536);
  set_experts(decoder, config.layers({"moe_num_experts"}, 64), config.count({"moe_k"}, 6), width);
  decoder.experts.shared_width = width * config.layers({"moe_num_shared_experts"}, 2);
  decoder.experts.shared_bias = bias;
  decoder.head_bias = bias;
  decoder.experts.correction_bias = true;
  std::uint64_t step = config.size({"moe_layer_interval"}, 1);
  std::uint64_t first = config.count({"moe_layer_start_index"}, 1);
  double last = config.number({"moe_layer_end_index"}, -1);
  std::uint64_t end = last < 0 ? decoder.layers - 1 : static_cast<std::uint64_t>(last);
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    decoder.is_moe[i] = (i + 1) % step == 0 && i >= first && i <= end;
  }
  build_moe(config, decoder, model);
}

// HF sends every token through all routed experts and scales the results. Needed are only the top
// k.
void build_llama4(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 5120,
                                          .layers = 48,
                                          .heads = 40,
                                          .kv_heads = 8,
                                          .head_dim = 128,
                                          .ffn = 8192,
                                          .vocab = 202048});
  decoder.mlp_prefix = "feed_forward.";
  read_biases(config, "attention_bias", false, decoder.attention);
  std::uint64_t width = decoder.mlp.width;
  set_experts(decoder, config.layers({"num_local_experts"}, 16),
              config.count({"num_experts_per_tok"}, 1), width);
  decoder.experts.runs_all = true;
  decoder.experts.shared_width = width;
  decoder.experts.shared = "shared_expert";
  decoder.experts.router = "router";
  decoder.mlp.width = config.size({"intermediate_size_mlp"}, 16384);
  std::vector<std::uint64_t> listed = config.counts({"moe_layers"});
  std::uint64_t step = config.size({"interleave_moe_layer_step"}, 1);
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    decoder.is_moe[i] = listed.empty() ? (i + 1) % step == 0
                                       : std::find(listed.begin(), listed.end(), i) != listed.end();
  }
  std::vector<std::uint64_t> rope = config.counts({"no_rope_layers"});
  std::uint64_t interval = config.size({"no_rope_layer_interval"}, 4);
  Mask chunked{MaskKind::chunked, config.count({"attention_chunk_size"}, 8192)};
  decoder.masks = read_masks(config, decoder.layers, chunked, [&](std::uint64_t layer) {
    return layer < rope.size() ? rope[layer] != 0 : (layer + 1) % interval != 0;
  });
  build_moe(config, decoder, model);
}

}  // namespace

std::span<const Family> moe_families() {
  static constexpr Family kFamilies[] = {
      {"mixtral", build_mixtral},
      {"qwen2_moe", build_qwen2_moe},
      {"qwen3_moe", build_qwen3_moe},
      {"olmoe", build_olmoe},
      {"flex_olmo", build_flex_olmo},
      {"granitemoe", build_granite_moe},
      {"granitemoeshared", build_granite_moe},
      {"phimoe", build_phimoe},
      {"dbrx", build_dbrx},
      {"gpt_oss", build_gpt_oss},
      {"glm4_moe", build_glm4_moe},
      {"dots1", build_dots1},
      {"minimax_m2", build_minimax_m2},
      {"ernie4_5_moe", build_ernie_moe},
      {"llama4_text", build_llama4},
      {"qwen3_vl_moe_text", build_qwen3_moe},
  };
  return kFamilies;
}

}  // namespace mfu
