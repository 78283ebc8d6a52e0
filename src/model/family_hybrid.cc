// Models that mix attention with recurrences or short convolutions, layer by layer.
#include <algorithm>

#include "model/families.h"

namespace mfu {
namespace {

enum Mixer : std::uint32_t { attention, other };

// Two predicates choose the kind of a layer: kinds[mixer + 2 * moe].
struct Mix {
  std::vector<bool> attends;
  std::vector<bool> moe;
};

// A mix of layers with attention, and layers that have a norm and another mixer instead.
Stage mixed_stage(const Mix& mix, const Decoder& decoder, std::string_view norm,
                  const std::function<void(LayerKind&)>& add_mixer) {
  std::vector<LayerKind> kinds;
  for (bool moe : {false, true}) {
    for (bool attends : {true, false}) {
      LayerKind& layer = kinds.emplace_back();
      if (attends) {
        add_decoder_attention(layer, decoder, Mask{});
      } else {
        add_norm(layer, norm, decoder.norm, decoder.hidden);
        add_mixer(layer);
      }
      add_decoder_mlp(layer, decoder, moe);
    }
  }
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < mix.attends.size(); ++i) {
    bool moe = !mix.moe.empty() && mix.moe[i];
    order.push_back((mix.attends[i] ? attention : other) + (moe ? 2u : 0u));
  }
  return layer_stage("model.layers.", Stream::text, std::move(kinds), order);
}

std::vector<bool> read_types(const Fields& config, std::uint64_t layers,
                             const std::function<bool(std::uint64_t)>& attends_by_default) {
  std::vector<std::string> types = config.texts({"layer_types"});
  std::vector<bool> attends(layers);
  if (!types.empty() && types.size() < layers) {
    config.complain("layer_types", "fewer than num_hidden_layers");
    return attends;
  }
  for (std::uint64_t i = 0; i < layers; ++i) {
    attends[i] = types.empty() ? attends_by_default(i) : types[i] == "full_attention";
  }
  return attends;
}

bool listed(const std::vector<std::uint64_t>& list, std::uint64_t layer) {
  return std::find(list.begin(), list.end(), layer) != list.end();
}

// Qwen3-Next and Qwen3.5: three gated delta nets, then attention with an output gate.
DeltaNetBlock read_delta_net(const Fields& config, std::uint64_t hidden, bool split) {
  DeltaNetBlock block;
  block.hidden = hidden;
  block.key_heads = config.size({"linear_num_key_heads"}, 16);
  block.value_heads = config.size({"linear_num_value_heads"}, 32);
  block.key_dim = config.size({"linear_key_head_dim"}, 128);
  block.value_dim = config.size({"linear_value_head_dim"}, 128);
  block.kernel = config.size({"linear_conv_kernel_dim"}, 4);
  block.split_inputs = split;
  return block;
}

void set_qwen_experts(const Fields& config, Decoder& decoder, std::uint64_t experts,
                      std::uint64_t active) {
  decoder.experts.hidden = decoder.hidden;
  decoder.experts.experts = config.layers({"num_experts"}, experts);
  decoder.experts.active = config.count({"num_experts_per_tok"}, active);
  decoder.experts.width = config.size({"moe_intermediate_size"}, 512);
  decoder.experts.shared_width = config.size({"shared_expert_intermediate_size"}, 512);
  decoder.experts.shared_gate = true;
  decoder.experts.shared = "shared_expert";
  std::vector<std::uint64_t> dense = config.counts({"mlp_only_layers"});
  std::uint64_t step = config.size({"decoder_sparse_step"}, 1);
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    decoder.is_moe.push_back(!listed(dense, i) && decoder.experts.experts != 0 &&
                             (i + 1) % step == 0);
  }
}

// One more attention layer. Its input is the embedding together with the hidden state of the token
// before.
Stage qwen_mtp_stage(const Decoder& decoder, std::uint64_t layers) {
  LayerKind layer;
  add_norm(layer, "pre_fc_norm_embedding", NormKind::rms, decoder.hidden);
  add_norm(layer, "pre_fc_norm_hidden", NormKind::rms, decoder.hidden);
  add_linear(layer, Part::mtp,
             {"fc", 2 * decoder.hidden, decoder.hidden, false, wire::normed, wire::stream});
  add_decoder_attention(layer, decoder, Mask{});
  add_decoder_mlp(layer, decoder, !decoder.is_moe.empty());
  add_norm(layer, "norm", NormKind::rms, decoder.hidden);
  Component head{.name = "head", .part = Part::mtp};
  head.work = Projection{.in = decoder.hidden, .out = decoder.vocab, .stored = false};
  layer.components.push_back(head);
  Stage stage = uniform_stage("mtp.", Stream::text, std::move(layer), layers);
  stage.mtp = true;
  return stage;
}

void build_delta_hybrid(const Fields& config, ModelSpec& model, Decoder decoder, bool split) {
  read_biases(config, "attention_bias", false, decoder.attention);
  decoder.attention.gate = config.flag({"attn_output_gate"}, true);
  per_head_norms(decoder);
  DeltaNetBlock delta = read_delta_net(config, decoder.hidden, split);
  std::uint64_t period = config.size({"full_attention_interval"}, 4);
  Mix mix{read_types(config, decoder.layers,
                     [period](std::uint64_t layer) { return (layer + 1) % period == 0; }),
          decoder.is_moe};
  Stage layers = mixed_stage(mix, decoder, "input_layernorm", [&](LayerKind& layer) {
    add_delta_net(layer, delta, {.prefix = "linear_attn."});
  });
  add_decoder_frame(config, decoder, std::move(layers), model);
  std::uint64_t mtp = config.layers({"mtp_num_hidden_layers"}, 0);
  if (mtp != 0) model.stages.push_back(qwen_mtp_stage(decoder, mtp));
}

void build_qwen3_next(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 2048,
                                          .layers = 48,
                                          .heads = 16,
                                          .kv_heads = 2,
                                          .head_dim = 256,
                                          .ffn = 5632,
                                          .vocab = 151936});
  set_qwen_experts(config, decoder, 512, 10);
  build_delta_hybrid(config, model, decoder, false);
}

void build_qwen3_5(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 4096,
                                          .layers = 32,
                                          .heads = 16,
                                          .kv_heads = 4,
                                          .head_dim = 256,
                                          .ffn = 12288,
                                          .vocab = 248320});
  build_delta_hybrid(config, model, decoder, true);
}

void build_qwen3_5_moe(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.hidden = 2048,
                                          .layers = 40,
                                          .heads = 16,
                                          .kv_heads = 2,
                                          .head_dim = 256,
                                          .ffn = 512,
                                          .vocab = 248320});
  set_qwen_experts(config, decoder, 256, 8);
  decoder.is_moe.assign(decoder.layers, true);
  build_delta_hybrid(config, model, decoder, true);
}

// LFM2: a gated short convolution, h -> 3h, depthwise, h -> h.
void add_short_convolution(LayerKind& layer, std::uint64_t hidden, std::uint64_t kernel,
                           bool bias) {
  Place place{.prefix = "conv."};
  add_linear(layer, Part::ssm, {"in_proj", hidden, 3 * hidden, bias}, place);
  Component convolution{.name = "conv.conv", .part = Part::ssm, .reads = wire::inner};
  convolution.work = Convolution{hidden, kernel, bias};
  layer.components.push_back(convolution);
  add_linear(layer, Part::ssm, {"out_proj", hidden, hidden, bias, wire::inner, wire::stream},
             place);
}

std::uint64_t lfm2_width(const Fields& config, std::uint64_t width) {
  if (!config.flag({"block_auto_adjust_ff_dim"}, true)) return width;
  width = 2 * width / 3;
  if (config.is_null("block_ffn_dim_multiplier")) return width;
  double factor = config.number({"block_ffn_dim_multiplier"}, 1.0);
  if (!(factor > 0) || factor > 1024) {
    config.complain("block_ffn_dim_multiplier", "not from 0 to 1024");
    return width;
  }
  width = static_cast<std::uint64_t>(factor * static_cast<double>(width));
  std::uint64_t multiple = config.size({"block_multiple_of"}, 256);
  return (width + multiple - 1) / multiple * multiple;
}

void build_lfm2_layers(const Fields& config, ModelSpec& model, Decoder decoder,
                       const std::vector<std::uint64_t>& attention_default) {
  per_head_norms(decoder);
  decoder.attention.o = "out_proj";
  decoder.tied = config.flag({"tie_embedding", "tie_word_embeddings"}, true);
  decoder.mlp_prefix = "feed_forward.";
  decoder.mlp.gate = "w1";
  decoder.mlp.up = "w3";
  decoder.mlp.down = "w2";
  std::uint64_t kernel = config.size({"conv_L_cache"}, 3);
  bool bias = config.flag({"conv_bias"}, false);
  Mix mix{read_types(config, decoder.layers,
                     [&](std::uint64_t layer) { return listed(attention_default, layer); }),
          decoder.is_moe};
  Stage layers = mixed_stage(mix, decoder, "operator_norm", [&](LayerKind& layer) {
    add_short_convolution(layer, decoder.hidden, kernel, bias);
  });
  add_decoder_frame(config, decoder, std::move(layers), model);
}

std::vector<std::uint64_t> lfm2_attention(const Fields& config, std::uint64_t layers) {
  std::vector<std::uint64_t> attention = config.counts({"full_attn_idxs"});
  for (std::uint64_t i = 0; !config.has("full_attn_idxs") && i < layers; ++i) {
    attention.push_back(i);
  }
  return attention;
}

void build_lfm2(const Fields& config, ModelSpec& model) {
  Decoder decoder =
      read_decoder(config, {.hidden = 2560, .kv_heads = 8, .ffn = 12288, .vocab = 65536});
  decoder.mlp.width = lfm2_width(config, config.size({"block_ff_dim", "intermediate_size"}, 12288));
  build_lfm2_layers(config, model, decoder, lfm2_attention(config, decoder.layers));
}

void build_lfm2_moe(const Fields& config, ModelSpec& model) {
  Decoder decoder =
      read_decoder(config, {.hidden = 2048, .kv_heads = 8, .ffn = 7168, .vocab = 65536});
  decoder.experts.hidden = decoder.hidden;
  decoder.experts.experts = config.layers({"num_experts"}, 32);
  decoder.experts.active = config.count({"num_experts_per_tok"}, 4);
  decoder.experts.width = config.size({"moe_intermediate_size"}, 1792);
  decoder.experts.correction_bias = config.flag({"use_expert_bias"}, true);
  std::uint64_t dense = config.count({"num_dense_layers"}, 2);
  for (std::uint64_t i = 0; i < decoder.layers; ++i) decoder.is_moe.push_back(i >= dense);
  build_lfm2_layers(config, model, decoder, {});
}

// Jamba (arXiv 2403.19887): Mamba with norms on dt, B and C; experts every other layer.
void build_jamba(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .ffn = 14336, .vocab = 65536});
  decoder.mlp_prefix = "feed_forward.";
  decoder.experts.hidden = decoder.hidden;
  decoder.experts.experts = config.layers({"num_experts", "num_local_experts"}, 16);
  decoder.experts.active = config.count({"num_experts_per_tok"}, 2);
  decoder.experts.width = decoder.mlp.width;
  decoder.experts.router = "router";
  MambaBlock mamba;
  mamba.hidden = decoder.hidden;
  mamba.inner = config.size({"mamba_expand"}, 2) * decoder.hidden;
  mamba.state = config.size({"mamba_d_state"}, 16);
  mamba.kernel = config.size({"mamba_d_conv"}, 4);
  mamba.rank = config.is_count("mamba_dt_rank") ? config.size({"mamba_dt_rank"}, 1)
                                                : (decoder.hidden + 15) / 16;
  mamba.bias = config.flag({"mamba_proj_bias"}, false);
  mamba.conv_bias = config.flag({"mamba_conv_bias"}, true);
  mamba.extra_norms = mamba.rank + 2 * mamba.state;
  std::uint64_t attention_period = config.size({"attn_layer_period"}, 8);
  std::uint64_t attention_offset = config.count({"attn_layer_offset"}, 4);
  std::uint64_t expert_period = config.size({"expert_layer_period"}, 2);
  std::uint64_t expert_offset = config.count({"expert_layer_offset"}, 1);
  Mix mix;
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    mix.attends.push_back(i % attention_period == attention_offset);
    mix.moe.push_back(decoder.experts.experts > 1 && i % expert_period == expert_offset);
  }
  Stage layers = mixed_stage(mix, decoder, "input_layernorm", [&](LayerKind& layer) {
    add_mamba(layer, mamba, {.prefix = "mamba."});
  });
  add_decoder_frame(config, decoder, std::move(layers), model);
}

}  // namespace

std::span<const Family> hybrid_families() {
  static constexpr Family kFamilies[] = {
      {"qwen3_next", build_qwen3_next},
      {"qwen3_5_text", build_qwen3_5},
      {"qwen3_5_moe_text", build_qwen3_5_moe},
      {"lfm2", build_lfm2},
      {"lfm2_moe", build_lfm2_moe},
      {"jamba", build_jamba},
  };
  return kFamilies;
}

}  // namespace mfu
