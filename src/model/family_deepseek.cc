// Multi-head latent attention with routed experts: DeepSeek V2 and V3, Kimi K2, GLM-4.7-Flash, and
// two models with a sparse indexer, DeepSeek V3.2 and GLM-5.
#include <algorithm>

#include "model/families.h"

namespace mfu {
namespace {

struct Defaults {
  DecoderDefaults decoder;
  struct {
    std::uint64_t experts, active, width, shared, dense_first;
    bool correction_bias;
  } moe;
  struct {
    std::uint64_t q_rank, kv_rank, nope, rope, value;
  } latent;
  struct {
    std::uint64_t heads, dim, topk;
  } index;
};

constexpr Defaults kV2{{.hidden = 4096, .ffn = 11008, .vocab = 102400},
                       {64, 0, 1407, 2, 0, false},
                       {1536, 512, 128, 64, 128},
                       {0, 0, 0}};
constexpr Defaults kV3{{.hidden = 7168, .layers = 61, .heads = 128, .ffn = 18432, .vocab = 129280},
                       {256, 8, 2048, 1, 3, true},
                       {1536, 512, 128, 64, 128},
                       {0, 0, 0}};
constexpr Defaults kV32{{.hidden = 7168, .layers = 61, .heads = 128, .ffn = 18432, .vocab = 129280},
                        {256, 8, 2048, 1, 3, true},
                        {1536, 512, 128, 64, 128},
                        {64, 128, 2048}};
constexpr Defaults kGlmLite{
    {.hidden = 2048, .layers = 47, .heads = 20, .ffn = 10240, .vocab = 154880},
    {64, 4, 1536, 1, 1, true},
    {768, 512, 192, 64, 256},
    {0, 0, 0}};
constexpr Defaults kGlmDsa{
    {.hidden = 6144, .layers = 78, .heads = 64, .ffn = 12288, .vocab = 154880},
    {256, 8, 2048, 1, 3, true},
    {2048, 512, 192, 64, 256},
    {32, 128, 2048}};

LatentAttentionBlock read_attention(const Fields& config, const Defaults& defaults,
                                    const Decoder& decoder) {
  LatentAttentionBlock block;
  block.hidden = decoder.hidden;
  block.heads = decoder.attention.heads;
  block.q_rank =
      config.is_null("q_lora_rank") ? 0 : config.count({"q_lora_rank"}, defaults.latent.q_rank);
  block.kv_rank = config.size({"kv_lora_rank"}, defaults.latent.kv_rank);
  block.nope_dim = config.count({"qk_nope_head_dim"}, defaults.latent.nope);
  block.rope_dim = config.count({"qk_rope_head_dim"}, defaults.latent.rope);
  block.v_dim = config.size({"v_head_dim"}, defaults.latent.value);
  block.bias = config.flag({"attention_bias"}, false);
  if (defaults.index.heads != 0) {
    block.index_heads = config.size({"index_n_heads"}, defaults.index.heads);
    block.index_dim = config.size({"index_head_dim"}, defaults.index.dim);
    block.mask = {MaskKind::top_k, config.size({"index_topk"}, defaults.index.topk)};
  }
  return block;
}

Decoder read_experts(const Fields& config, const Defaults& defaults) {
  DecoderDefaults frame = defaults.decoder;
  frame.head_dim = 1;  // latent attention has its own widths
  Decoder decoder = read_decoder(config, frame);
  std::uint64_t width = config.size({"moe_intermediate_size"}, defaults.moe.width);
  decoder.experts.hidden = decoder.hidden;
  decoder.experts.experts = config.layers({"n_routed_experts"}, defaults.moe.experts);
  decoder.experts.active = config.count({"num_experts_per_tok"}, defaults.moe.active);
  decoder.experts.width = width;
  decoder.experts.shared_width = width * config.layers({"n_shared_experts"}, defaults.moe.shared);
  decoder.experts.correction_bias =
      config.text({"topk_method"}, defaults.moe.correction_bias ? "noaux_tc" : "greedy") ==
      "noaux_tc";
  std::uint64_t dense = config.count({"first_k_dense_replace"}, defaults.moe.dense_first);
  std::uint64_t step = config.size({"moe_layer_freq"}, 1);
  std::vector<std::string> kinds = config.texts({"mlp_layer_types"});
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    decoder.is_moe.push_back(i < kinds.size() ? kinds[i] == "sparse" : i >= dense && i % step == 0);
  }
  if (decoder.experts.active > decoder.experts.experts) {
    config.complain("num_experts_per_tok", "more than there are experts");
  }
  return decoder;
}

LayerKind latent_layer(const Decoder& decoder, const LatentAttentionBlock& attention, bool moe) {
  LayerKind layer;
  add_norm(layer, "input_layernorm", decoder.norm, decoder.hidden);
  add_latent_attention(layer, attention, {.prefix = "self_attn."});
  add_decoder_mlp(layer, decoder, moe);
  return layer;
}

// DeepSeek-V3 §2.2: norms of the hidden state and of the embedding, a projection of both together,
// one more layer, and the model's head used again.
Stage mtp_stage(const Decoder& decoder, const LatentAttentionBlock& attention,
                std::uint64_t layers) {
  LayerKind layer = latent_layer(decoder, attention, true);
  LayerKind whole;
  for (std::string_view name : {"enorm", "hnorm"}) {
    add_norm(whole, name, NormKind::rms, decoder.hidden);
  }
  add_linear(whole, Part::mtp,
             {"eh_proj", 2 * decoder.hidden, decoder.hidden, false, wire::normed, wire::stream});
  for (Component& component : layer.components) whole.components.push_back(component);
  add_norm(whole, "shared_head.norm", NormKind::rms, decoder.hidden);
  Component head{.name = "shared_head.head", .part = Part::mtp};
  head.work = Projection{.in = decoder.hidden, .out = decoder.vocab, .stored = false};
  whole.components.push_back(head);
  Stage stage = uniform_stage("model.mtp.", Stream::text, std::move(whole), layers);
  stage.mtp = true;
  return stage;
}

// Layers that reuse the choice of the layer before have no indexer.
std::vector<bool> shared_choices(const Fields& config, std::uint64_t layers) {
  std::vector<bool> shared(layers, false);
  std::vector<std::string> types = config.texts({"indexer_types"});
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(layers, types.size()); ++i) {
    shared[i] = types[i] == "shared";
  }
  return shared;
}

template <const Defaults& defaults>
void build_latent(const Fields& config, ModelSpec& model) {
  Decoder decoder = read_experts(config, defaults);
  LatentAttentionBlock attention = read_attention(config, defaults, decoder);
  LatentAttentionBlock without = attention;
  without.index_heads = 0;
  std::vector<LayerKind> kinds;
  for (const LatentAttentionBlock& block : {attention, without}) {
    kinds.push_back(latent_layer(decoder, block, false));
    kinds.push_back(latent_layer(decoder, block, true));
  }
  std::vector<bool> shared = shared_choices(config, decoder.layers);
  std::vector<std::uint32_t> order;
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    order.push_back((shared[i] ? 2u : 0u) + (decoder.is_moe[i] ? 1u : 0u));
  }
  add_decoder_frame(config, decoder,
                    layer_stage("model.layers.", Stream::text, std::move(kinds), order), model);
  std::uint64_t mtp = config.layers({"num_nextn_predict_layers"}, 0);
  if (mtp != 0) model.stages.push_back(mtp_stage(decoder, attention, mtp));
}

}  // namespace

std::span<const Family> deepseek_families() {
  static constexpr Family kFamilies[] = {
      {"deepseek_v2", build_latent<kV2>},
      {"deepseek_v3", build_latent<kV3>},
      {"kimi_k2", build_latent<kV3>},
      {"deepseek_v32", build_latent<kV32>},
      {"glm4_moe_lite", build_latent<kGlmLite>},
      {"glm_moe_dsa", build_latent<kGlmDsa>},
  };
  return kFamilies;
}

}  // namespace mfu
