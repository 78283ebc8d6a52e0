// Models without attention: Mamba 1 and 2, Falcon-Mamba, RWKV-4.
#include <algorithm>

#include "model/families.h"

namespace mfu {
namespace {

Decoder read_frame(const Fields& config, std::uint64_t hidden, std::uint64_t vocab, bool tied,
                   std::uint64_t layers) {
  Decoder decoder;
  decoder.prefix = "backbone.";
  decoder.embedding = "embeddings";
  decoder.hidden = config.size({"hidden_size", "d_model"}, hidden);
  decoder.vocab = config.size({"vocab_size"}, vocab);
  decoder.layers = config.layers({"num_hidden_layers", "n_layer"}, layers);
  decoder.tied = config.flag({"tie_word_embeddings"}, tied);
  return decoder;
}

template <typename Block>
void add_layers(const Fields& config, const Decoder& decoder, ModelSpec& model, const Block& block,
                void add_mixer(LayerKind&, const Block&, const Place&)) {
  LayerKind layer;
  add_norm(layer, "norm", NormKind::rms, decoder.hidden);
  add_mixer(layer, block, {.prefix = "mixer."});
  add_decoder_frame(
      config, decoder,
      uniform_stage("backbone.layers.", Stream::text, std::move(layer), decoder.layers), model);
}

void build_mamba(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_frame(config, 768, 50280, true, 32);
  MambaBlock block;
  block.hidden = decoder.hidden;
  // As in the class, an explicit width wins. (Falcon-Mamba 7B says expand 16, but its width is 2
  // times the hidden size.)
  std::uint64_t expanded = config.size({"expand"}, 2) * decoder.hidden;
  block.inner = config.size({"intermediate_size"}, expanded);
  block.state = config.size({"state_size"}, 16);
  block.kernel = config.size({"conv_kernel"}, 4);
  bool automatic = !config.is_count("time_step_rank");
  block.rank = automatic ? (decoder.hidden + 15) / 16 : config.size({"time_step_rank"}, 1);
  block.bias = config.flag({"use_bias"}, false);
  block.conv_bias = config.flag({"use_conv_bias"}, true);
  add_layers(config, decoder, model, block, add_mamba);
}

void build_mamba2(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_frame(config, 4096, 32768, false, 64);
  Mamba2Block block;
  block.hidden = decoder.hidden;
  block.heads = config.size({"num_heads"}, 128);
  block.head_dim = config.size({"head_dim"}, 64);
  block.state = config.size({"state_size"}, 128);
  block.groups = config.size({"n_groups"}, 8);
  block.kernel = config.size({"conv_kernel"}, 4);
  block.chunk = config.size({"chunk_size"}, 256);
  block.bias = block.out_bias = config.flag({"use_bias"}, false);
  block.conv_bias = config.flag({"use_conv_bias"}, true);
  add_layers(config, decoder, model, block, add_mamba2);
}

// RWKV-4 (arXiv 2305.13048): the recurrence is element-wise, with a few numbers per channel.
void build_rwkv(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_frame(config, 4096, 50277, false, 32);
  decoder.prefix = "rwkv.";
  decoder.norm = NormKind::layer;
  std::uint64_t h = decoder.hidden;
  std::uint64_t inner = config.size({"attention_hidden_size"}, h);
  std::uint64_t ffn = config.size({"intermediate_size"}, 4 * h);
  auto make = [&](bool first) {
    LayerKind layer;
    if (first) add_norm(layer, "pre_ln", NormKind::layer, h);
    add_norm(layer, "ln1", NormKind::layer, h);
    add_weights(layer, "attention.time_mix", Part::ssm, 3 * h + 2 * inner, wire::normed);
    for (std::string_view name : {"attention.key", "attention.value", "attention.receptance"}) {
      add_linear(layer, Part::ssm, {name, h, inner});
    }
    add_linear(layer, Part::ssm, {"attention.output", inner, h, false, wire::inner, wire::stream});
    add_norm(layer, "ln2", NormKind::layer, h);
    add_weights(layer, "feed_forward.time_mix", Part::mlp, 2 * h, wire::normed);
    add_linear(layer, Part::mlp, {"feed_forward.key", h, ffn});
    add_linear(layer, Part::mlp, {"feed_forward.receptance", h, h});
    add_linear(layer, Part::mlp, {"feed_forward.value", ffn, h, false, wire::inner, wire::stream});
    return layer;
  };
  std::vector<std::uint32_t> order(decoder.layers, 1);
  if (!order.empty()) order[0] = 0;
  add_decoder_frame(config, decoder,
                    layer_stage("rwkv.blocks.", Stream::text, {make(true), make(false)}, order),
                    model);
}

}  // namespace

std::span<const Family> ssm_families() {
  static constexpr Family kFamilies[] = {{"mamba", build_mamba},
                                         {"falcon_mamba", build_mamba},
                                         {"mamba2", build_mamba2},
                                         {"rwkv", build_rwkv}};
  return kFamilies;
}

}  // namespace mfu
