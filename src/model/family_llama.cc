// Llama and the decoders that differ from it by a bias, a norm or a window. Sources: the
// configuration and modeling files of Hugging Face transformers 5.22 for each model type.
#include "model/families.h"

namespace mfu {
namespace {

constexpr DecoderDefaults kLlama{};

void build_llama(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, kLlama);
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.mlp.bias = config.flag({"mlp_bias"}, false);
  build_decoder(config, decoder, model);
}

void build_mistral(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .ffn = 14336});
  Mask window = window_of(config, 4096);
  decoder.masks.assign(decoder.layers, window);
  build_decoder(config, decoder, model);
}

void build_ministral(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .ffn = 14336});
  Mask window = window_of(config, 4096);
  decoder.masks = read_masks(config, decoder.layers, window, [](std::uint64_t) { return true; });
  build_decoder(config, decoder, model);
}

void build_ministral3(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(
      config, {.layers = 34, .kv_heads = 8, .head_dim = 128, .ffn = 14336, .vocab = 131072});
  decoder.masks.assign(decoder.layers, window_of(config, 0));
  build_decoder(config, decoder, model);
}

// One layer in four, beginning with the first, sees everything.
void build_cwm(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 6144,
                                          .layers = 64,
                                          .heads = 48,
                                          .kv_heads = 8,
                                          .head_dim = 128,
                                          .ffn = 21504,
                                          .vocab = 128256});
  decoder.mlp.bias = config.flag({"mlp_bias"}, false);
  decoder.masks = read_masks(config, decoder.layers, window_of(config, 8192),
                             [](std::uint64_t layer) { return layer % 4 != 0; });
  build_decoder(config, decoder, model);
}

// Layers from max_window_layers on have windows, if windows are used at all.
void set_qwen_masks(const Fields& config, Decoder& decoder) {
  if (!config.flag({"use_sliding_window"}, false)) return;
  std::uint64_t first = config.count({"max_window_layers"}, 28);
  decoder.masks = read_masks(config, decoder.layers, window_of(config, 4096),
                             [first](std::uint64_t layer) { return layer >= first; });
}

void build_qwen2(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.ffn = 22016, .vocab = 151936});
  set_biases(decoder.attention, true, false);
  set_qwen_masks(config, decoder);
  build_decoder(config, decoder, model);
}

void build_qwen3(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.head_dim = 128, .ffn = 22016, .vocab = 151936});
  read_biases(config, "attention_bias", false, decoder.attention);
  per_head_norms(decoder);
  set_qwen_masks(config, decoder);
  build_decoder(config, decoder, model);
}

void build_smollm3(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(
      config,
      {.hidden = 2048, .layers = 36, .heads = 16, .kv_heads = 4, .vocab = 128256, .tied = true});
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.mlp.bias = config.flag({"mlp_bias"}, false);
  build_decoder(config, decoder, model);
}

void build_seed_oss(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(
      config,
      {.layers = 64, .heads = 80, .kv_heads = 8, .head_dim = 128, .ffn = 27648, .vocab = 155136});
  set_biases(decoder.attention, config.flag({"attention_bias"}, true),
             config.flag({"attention_out_bias"}, false));
  decoder.mlp.bias = config.flag({"mlp_bias"}, false);
  build_decoder(config, decoder, model);
}

void build_helium(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(
      config,
      {.hidden = 2560, .layers = 24, .heads = 20, .head_dim = 128, .ffn = 7040, .vocab = 48000});
  set_biases(decoder.attention, config.flag({"attention_bias"}, false), false);
  decoder.mlp.bias = config.flag({"mlp_bias"}, false);
  build_decoder(config, decoder, model);
}

void build_arcee(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 2560, .ffn = 18432});
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.mlp.gated = false;
  decoder.mlp.bias = config.flag({"mlp_bias"}, false);
  build_decoder(config, decoder, model);
}

void build_ernie(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 1024,
                                          .layers = 18,
                                          .heads = 16,
                                          .kv_heads = 2,
                                          .head_dim = 128,
                                          .ffn = 3072,
                                          .vocab = 103424,
                                          .tied = true});
  bool bias = read_biases(config, "use_bias", false, decoder.attention);
  decoder.mlp.bias = bias;
  build_decoder(config, decoder, model);
}

void build_hunyuan(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.vocab = 290943});
  read_biases(config, "attention_bias", false, decoder.attention);
  per_head_norms(decoder);
  build_decoder(config, decoder, model);
}

void build_exaone4(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.ffn = 16384, .vocab = 102400});
  decoder.plan = NormPlan::post;
  per_head_norms(decoder);
  std::uint64_t period = config.size({"sliding_window_pattern"}, 4);
  decoder.masks = read_masks(config, decoder.layers, window_of(config, 4096),
                             [&](std::uint64_t layer) { return (layer + 1) % period != 0; });
  build_decoder(config, decoder, model);
}

void build_apertus(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.ffn = 14336, .vocab = 131072});
  read_biases(config, "attention_bias", false, decoder.attention);
  per_head_norms(decoder);
  decoder.mlp.gated = false;
  decoder.mlp.bias = config.flag({"mlp_bias"}, false);
  decoder.mlp_extra = config.text({"hidden_act"}, "xielu") == "xielu" ? 2 : 0;
  build_decoder(config, decoder, model);
}

void build_olmo(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.vocab = 50304});
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.norm = NormKind::none;
  build_decoder(config, decoder, model);
}

Decoder read_olmo2(const Fields& config) {
  Decoder decoder = read_decoder(config, {.vocab = 50304});
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.plan = NormPlan::post;
  full_norms(decoder);
  return decoder;
}

void build_olmo2(const Fields& config, ModelSpec& model) {
  build_decoder(config, read_olmo2(config), model);
}

void build_olmo3(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_olmo2(config);
  decoder.masks = read_masks(config, decoder.layers, window_of(config, 4096),
                             [](std::uint64_t layer) { return (layer + 1) % 4 != 0; });
  build_decoder(config, decoder, model);
}

}  // namespace

std::span<const Family> llama_families() {
  static constexpr Family kFamilies[] = {
      {"llama", build_llama},
      {"mistral", build_mistral},
      {"ministral", build_ministral},
      {"ministral3", build_ministral3},
      {"cwm", build_cwm},
      {"qwen2", build_qwen2},
      {"qwen3", build_qwen3},
      {"smollm3", build_smollm3},
      {"seed_oss", build_seed_oss},
      {"granite", build_llama},
      {"helium", build_helium},
      {"arcee", build_arcee},
      {"ernie4_5", build_ernie},
      {"hunyuan_v1_dense", build_hunyuan},
      {"exaone4", build_exaone4},
      {"apertus", build_apertus},
      {"olmo", build_olmo},
      {"olmo2", build_olmo2},
      {"olmo3", build_olmo3},
      {"qwen2_vl_text", build_qwen2},
      {"qwen2_5_vl_text", build_qwen2},
      {"qwen3_vl_text", build_qwen3},
  };
  return kFamilies;
}

}  // namespace mfu
