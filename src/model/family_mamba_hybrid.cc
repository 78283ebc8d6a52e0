// Bamba, Granite 4 and Falcon-H1: Mamba-2, with attention in some layers or next to it in all
// layers.
#include <algorithm>

#include "model/families.h"

namespace mfu {
namespace {

Mamba2Block read_mamba(const Fields& config, std::uint64_t hidden, std::uint64_t inner) {
  Mamba2Block mamba;
  mamba.hidden = hidden;
  mamba.heads = config.size({"mamba_n_heads"}, 128);
  std::uint64_t automatic = std::max<std::uint64_t>(1, inner / mamba.heads);
  mamba.head_dim = config.is_count("mamba_d_head") ? config.size({"mamba_d_head"}, 1) : automatic;
  mamba.state = config.size({"mamba_d_state"}, 256);
  mamba.groups = config.size({"mamba_n_groups"}, 1);
  mamba.kernel = config.size({"mamba_d_conv"}, 4);
  mamba.chunk = config.size({"mamba_chunk_size"}, 256);
  mamba.bias = mamba.out_bias = config.flag({"mamba_proj_bias"}, false);
  mamba.conv_bias = config.flag({"mamba_conv_bias"}, true);
  return mamba;
}

std::uint64_t expanded(const Fields& config, std::uint64_t hidden) {
  return config.size({"mamba_expand"}, 2) * hidden;
}

void build_mixed(const Fields& config, ModelSpec& model, const Decoder& decoder,
                 const std::vector<bool>& attends,
                 const std::function<void(LayerKind& layer)>& add_rest) {
  Mamba2Block mamba = read_mamba(config, decoder.hidden, expanded(config, decoder.hidden));
  std::vector<LayerKind> kinds(2);
  add_norm(kinds[0], "input_layernorm", decoder.norm, decoder.hidden);
  add_mamba2(kinds[0], mamba, {.prefix = "mamba."});
  add_decoder_attention(kinds[1], decoder, Mask{});
  for (LayerKind& kind : kinds) add_rest(kind);
  std::vector<std::uint32_t> order(attends.begin(), attends.end());
  add_decoder_frame(config, decoder,
                    layer_stage("model.layers.", Stream::text, std::move(kinds), order), model);
}

void build_bamba(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .ffn = 14336, .vocab = 128000});
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.mlp_prefix = "feed_forward.";
  decoder.mlp.bias = config.flag({"mlp_bias"}, false);
  std::vector<std::uint64_t> attention = config.counts({"attn_layer_indices"});
  std::vector<bool> attends(decoder.layers);
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    attends[i] = std::find(attention.begin(), attention.end(), i) != attention.end();
  }
  build_mixed(config, model, decoder, attends,
              [&](LayerKind& layer) { add_decoder_mlp(layer, decoder, false); });
}

// Every layer has a dense MLP, called shared. If there are experts, they are next to it.
void build_granite_hybrid(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {});
  read_biases(config, "attention_bias", false, decoder.attention);
  ExpertsBlock& experts = decoder.experts;
  experts.hidden = decoder.hidden;
  experts.experts = config.layers({"num_local_experts"}, 8);
  experts.active = config.count({"num_experts_per_tok"}, 2);
  experts.width = decoder.mlp.width;
  MlpBlock shared{.hidden = decoder.hidden,
                  .width = config.size({"shared_intermediate_size"}, 1024)};
  if (experts.active > experts.experts) {
    config.complain("num_experts_per_tok", "more than there are experts");
  }
  std::vector<std::string> types = config.texts({"layer_types", "layers_block_type"});
  std::vector<bool> attends(decoder.layers);
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    attends[i] = i < types.size() && (types[i] == "attention" || types[i] == "full_attention");
  }
  build_mixed(config, model, decoder, attends, [&](LayerKind& layer) {
    add_norm(layer, "post_attention_layernorm", decoder.norm, decoder.hidden);
    if (experts.experts != 0) add_experts(layer, experts, {.prefix = "block_sparse_moe."});
    add_mlp(layer, shared, {.prefix = "shared_mlp."});
  });
}

void build_falcon_h1(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .ffn = 14336, .vocab = 128000});
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.mlp.bias = config.flag({"mlp_bias"}, false);
  std::uint64_t inner = config.is_null("mamba_d_ssm") ? expanded(config, decoder.hidden)
                                                      : config.size({"mamba_d_ssm"}, 1024);
  Mamba2Block mamba = read_mamba(config, decoder.hidden, inner);
  mamba.out_bias = config.flag({"projectors_bias"}, false);
  mamba.gated_norm = config.flag({"mamba_rms_norm"}, false);
  LayerKind layer;
  add_norm(layer, "input_layernorm", decoder.norm, decoder.hidden);
  add_mamba2(layer, mamba, {.prefix = "mamba."});
  add_attention(layer, decoder.attention, {.prefix = "self_attn."});
  add_norm(layer, "pre_ff_layernorm", decoder.norm, decoder.hidden);
  add_mlp(layer, decoder.mlp, {.prefix = "feed_forward."});
  add_decoder_frame(config, decoder,
                    uniform_stage("model.layers.", Stream::text, std::move(layer), decoder.layers),
                    model);
}

}  // namespace

std::span<const Family> mamba_hybrid_families() {
  static constexpr Family kFamilies[] = {{"bamba", build_bamba},
                                         {"granitemoehybrid", build_granite_hybrid},
                                         {"falcon_h1", build_falcon_h1}};
  return kFamilies;
}

}  // namespace mfu
