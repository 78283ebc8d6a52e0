// Decoders that differ more from Llama: fused matrices, layer norms, parallel blocks.
#include "model/families.h"

namespace mfu {
namespace {

void build_phi3(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 3072, .ffn = 8192, .vocab = 32064});
  decoder.attention.fused = "qkv_proj";
  decoder.mlp.fused = "gate_up_proj";
  decoder.masks.assign(decoder.layers, window_of(config));
  build_decoder(config, decoder, model);
}

Decoder read_glm(const Fields& config) {
  Decoder decoder = read_decoder(
      config, {.layers = 40, .kv_heads = 2, .head_dim = 128, .ffn = 13696, .vocab = 151552});
  set_biases(decoder.attention, config.flag({"attention_bias"}, true), false);
  decoder.mlp.fused = "gate_up_proj";
  return decoder;
}

void build_glm(const Fields& config, ModelSpec& model) {
  build_decoder(config, read_glm(config), model);
}

void build_glm4(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_glm(config);
  decoder.plan = NormPlan::sandwich;
  build_decoder(config, decoder, model);
}

// Its layer norm has a weight but no bias, so it counts like an RMS norm.
Decoder read_cohere(const Fields& config) {
  Decoder decoder = read_decoder(
      config,
      {.hidden = 8192, .layers = 40, .heads = 64, .ffn = 22528, .vocab = 256000, .tied = true});
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.plan = NormPlan::parallel;
  return decoder;
}

void build_cohere(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_cohere(config);
  if (config.flag({"use_qk_norm"}, false)) {
    full_norms(decoder);
  }
  build_decoder(config, decoder, model);
}

void build_cohere2(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_cohere(config);
  std::uint64_t period = config.size({"sliding_window_pattern", "_sliding_window_pattern"}, 4);
  Mask window{MaskKind::window, config.count({"sliding_window"}, 4096)};
  decoder.masks = read_masks(config, decoder.layers, window,
                             [period](std::uint64_t layer) { return (layer + 1) % period != 0; });
  build_decoder(config, decoder, model);
}

void build_stablelm(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 2560, .ffn = 6912, .vocab = 50304});
  decoder.norm = NormKind::layer;
  set_biases(decoder.attention, config.flag({"use_qkv_bias"}, false), false);
  if (config.flag({"qk_layernorm"}, false)) {
    full_norms(decoder);
  }
  if (config.flag({"use_parallel_residual"}, false)) decoder.plan = NormPlan::parallel;
  build_decoder(config, decoder, model);
}

void build_starcoder2(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 3072,
                                          .layers = 30,
                                          .heads = 24,
                                          .kv_heads = 2,
                                          .ffn = 12288,
                                          .vocab = 49152,
                                          .tied = true});
  bool bias = read_biases(config, "use_bias", true, decoder.attention);
  decoder.norm = NormKind::layer;
  decoder.mlp.gated = false;
  decoder.mlp.bias = bias;
  decoder.mlp.up = "c_fc";
  decoder.mlp.down = "c_proj";
  decoder.masks.assign(decoder.layers, window_of(config));
  build_decoder(config, decoder, model);
}

void build_nemotron(const Fields& config, ModelSpec& model) {
  Decoder decoder =
      read_decoder(config, {.hidden = 6144, .heads = 48, .ffn = 24576, .vocab = 256000});
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.norm = NormKind::layer;
  decoder.mlp.gated = false;
  decoder.mlp.bias = config.flag({"mlp_bias"}, false);
  build_decoder(config, decoder, model);
}

void build_phi(const Fields& config, ModelSpec& model) {
  Decoder decoder =
      read_decoder(config, {.hidden = 2048, .layers = 24, .ffn = 8192, .vocab = 51200});
  set_biases(decoder.attention, true, true);
  decoder.attention.o = "dense";
  decoder.norm = NormKind::layer;
  decoder.plan = NormPlan::parallel;
  if (config.flag({"qk_layernorm"}, false)) {
    decoder.attention.q_norm = decoder.attention.k_norm = 2 * decoder.attention.head_dim;
  }
  decoder.mlp.gated = false;
  decoder.mlp.bias = true;
  decoder.mlp.up = "fc1";
  decoder.mlp.down = "fc2";
  decoder.head_bias = true;
  build_decoder(config, decoder, model);
}

void build_persimmon(const Fields& config, ModelSpec& model) {
  Decoder decoder =
      read_decoder(config, {.layers = 36, .heads = 64, .ffn = 16384, .vocab = 262144});
  decoder.attention.kv_heads = decoder.attention.heads;
  set_biases(decoder.attention, true, true);
  decoder.attention.fused = "query_key_value";
  decoder.attention.o = "dense";
  decoder.norm = NormKind::layer;
  if (config.flag({"qk_layernorm"}, true)) {
    decoder.attention.q_norm = decoder.attention.k_norm = 2 * decoder.attention.head_dim;
  }
  decoder.mlp.gated = false;
  decoder.mlp.bias = true;
  decoder.mlp.up = "dense_h_to_4h";
  decoder.mlp.down = "dense_4h_to_h";
  build_decoder(config, decoder, model);
}

}  // namespace

std::span<const Family> llama_variant_families() {
  static constexpr Family kFamilies[] = {
      {"phi3", build_phi3},
      {"glm", build_glm},
      {"glm4", build_glm4},
      {"cohere", build_cohere},
      {"cohere2", build_cohere2},
      {"stablelm", build_stablelm},
      {"starcoder2", build_starcoder2},
      {"nemotron", build_nemotron},
      {"phi", build_phi},
      {"persimmon", build_persimmon},
  };
  return kFamilies;
}

}  // namespace mfu
