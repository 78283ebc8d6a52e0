// Gemma 1 to 3. Gemma's RMS norm stores weight - 1, which is still one number per channel.
#include "model/families.h"

namespace mfu {
namespace {

Decoder read_gemma(const Fields& config, const DecoderDefaults& defaults) {
  Decoder decoder = read_decoder(config, defaults);
  read_biases(config, "attention_bias", false, decoder.attention);
  return decoder;
}

void build_gemma(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_gemma(config, {.hidden = 3072,
                                        .layers = 28,
                                        .heads = 16,
                                        .kv_heads = 16,
                                        .head_dim = 256,
                                        .ffn = 24576,
                                        .vocab = 256000,
                                        .tied = true});
  build_decoder(config, decoder, model);
}

constexpr DecoderDefaults kGemma2{.hidden = 2304,
                                  .layers = 26,
                                  .heads = 8,
                                  .kv_heads = 4,
                                  .head_dim = 256,
                                  .ffn = 9216,
                                  .vocab = 256000,
                                  .tied = true};

void build_gemma2(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_gemma(config, kGemma2);
  decoder.plan = NormPlan::sandwich;
  Mask window{MaskKind::window, config.count({"sliding_window"}, 4096)};
  decoder.masks = read_masks(config, decoder.layers, window,
                             [](std::uint64_t layer) { return (layer + 1) % 2 != 0; });
  build_decoder(config, decoder, model);
}

void build_gemma3(const Fields& config, ModelSpec& model) {
  DecoderDefaults defaults = kGemma2;
  defaults.vocab = 262208;
  Decoder decoder = read_gemma(config, defaults);
  decoder.plan = NormPlan::sandwich;
  per_head_norms(decoder);
  std::uint64_t period = config.size({"sliding_window_pattern", "_sliding_window_pattern"}, 6);
  Mask window{MaskKind::window, config.count({"sliding_window"}, 4096)};
  decoder.masks = read_masks(config, decoder.layers, window,
                             [period](std::uint64_t layer) { return (layer + 1) % period != 0; });
  build_decoder(config, decoder, model);
}

}  // namespace

std::span<const Family> gemma_families() {
  static constexpr Family kFamilies[] = {
      {"gemma", build_gemma}, {"gemma2", build_gemma2}, {"gemma3_text", build_gemma3}};
  return kFamilies;
}

}  // namespace mfu
