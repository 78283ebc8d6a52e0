// Zamba2 (arXiv 2411.15242): Mamba-2 layers. Before some of them there is a transformer block over
// the layer's input together with the embedding. A few such blocks are used in turn, and each use
// has its own adapters.
#include "model/families.h"

namespace mfu {
namespace {

struct ZambaShape {
  std::uint64_t hidden = 0, heads = 0, kv_heads = 0, ffn = 0, rank = 0;
  bool bias = false, adapts_attention = false;
};

void add_adapter(LayerKind& layer, std::string_view name, std::uint64_t in, std::uint64_t rank,
                 std::uint64_t out, Part part, std::uint8_t writes) {
  std::string down = std::string(name) + ".0", up = std::string(name) + ".1";
  add_linear(layer, part, {down, in, rank, false, wire::normed, wire::inner});
  add_linear(layer, part, {up, rank, out, false, wire::inner, writes});
}

// What all uses of a block have in common.
LayerKind shared_block(const Fields& config, const ZambaShape& shape) {
  LayerKind layer;
  std::uint64_t wide = 2 * shape.hidden;
  AttentionBlock attention{.hidden = wide,
                           .heads = shape.heads,
                           .kv_heads = shape.kv_heads,
                           .head_dim = config.head_width(wide, shape.heads),
                           .out = shape.hidden};
  add_norm(layer, "input_layernorm", NormKind::rms, wide);
  add_attention(layer, attention, {.prefix = "self_attn."});
  add_norm(layer, "pre_ff_layernorm", NormKind::rms, shape.hidden);
  MlpBlock mlp{.hidden = shape.hidden, .width = shape.ffn, .bias = shape.bias};
  mlp.fused = "gate_up_proj";
  add_mlp(layer, mlp, {.prefix = "feed_forward."});
  for (Component& component : layer.components) {
    component.name = "shared_transformer." + component.name;
  }
  return layer;
}

void add_own_parts(LayerKind& layer, const ZambaShape& shape) {
  std::uint64_t h = shape.hidden;
  if (shape.adapts_attention) {
    for (std::string_view name : {"linear_q_adapter", "linear_k_adapter", "linear_v_adapter"}) {
      add_adapter(layer, name, 2 * h, shape.rank, 2 * h, Part::attention_projections, wire::qkv);
    }
  }
  add_adapter(layer, "gate_up_proj_adapter", h, shape.rank, 2 * shape.ffn, Part::mlp, wire::inner);
  add_linear(layer, Part::mlp, {"linear", h, h, false, wire::stream, wire::stream});
}

std::vector<std::string> read_types(const Fields& config, std::uint64_t layers) {
  std::vector<std::string> types = config.texts({"layers_block_type", "layer_types"});
  if (types.empty()) {
    // The class's own pattern, of 54 layers.
    for (std::uint64_t i = 0; i < layers; ++i) {
      bool hybrid = (i >= 6 && i <= 42 && i % 6 == 0) || i == 47 || i == 51;
      types.emplace_back(hybrid ? "hybrid" : "mamba");
    }
  }
  if (types.size() < layers) config.complain("layers_block_type", "fewer than num_hidden_layers");
  types.resize(layers);
  return types;
}

Mamba2Block read_mixer(const Fields& config, std::uint64_t hidden, bool bias) {
  Mamba2Block mamba;
  mamba.hidden = hidden;
  mamba.heads = config.size({"n_mamba_heads"}, 8);
  mamba.head_dim = config.head_width(config.size({"mamba_expand"}, 2) * hidden, mamba.heads);
  mamba.state = config.size({"mamba_d_state"}, 64);
  mamba.groups = config.size({"mamba_ngroups"}, 1);
  mamba.kernel = config.size({"mamba_d_conv"}, 4);
  mamba.chunk = config.size({"chunk_size"}, 256);
  mamba.bias = mamba.out_bias = bias;
  return mamba;
}

void build_zamba2(const Fields& config, ModelSpec& model) {
  Decoder decoder;
  decoder.hidden = config.size({"hidden_size"}, 2560);
  decoder.layers = config.layers({"num_hidden_layers"}, 54);
  decoder.vocab = config.size({"vocab_size"}, 32000);
  decoder.tied = config.flag({"tie_word_embeddings"}, true);
  ZambaShape shape{.hidden = decoder.hidden};
  shape.heads = config.size({"num_attention_heads"}, 32);
  shape.kv_heads = config.size({"num_key_value_heads"}, shape.heads);
  shape.ffn = decoder.mlp.width = config.size({"intermediate_size"}, 4 * decoder.hidden);
  shape.rank = config.size({"adapter_rank"}, 128);
  shape.bias = config.flag({"add_bias_linear"}, false);
  shape.adapts_attention = config.flag({"use_shared_attention_adapter"}, false);
  std::uint64_t blocks = config.size({"num_mem_blocks"}, 1);
  if (!decoder.tied) {
    model.notes.push_back({"blocks_shared", {}});
  }
  Mamba2Block mixer = read_mixer(config, decoder.hidden, shape.bias);
  LayerKind block = shared_block(config, shape);
  // only Mamba; with a new block; with a block that was used before
  std::vector<LayerKind> kinds(3);
  kinds[1] = block;
  kinds[2] = borrowed(block);
  for (LayerKind& kind : kinds) {
    if (!kind.components.empty()) add_own_parts(kind, shape);
    add_norm(kind, "input_layernorm", NormKind::rms, decoder.hidden);
    add_mamba2(kind, mixer, {.prefix = "mamba."});
  }
  std::vector<std::uint32_t> order;
  std::uint64_t hybrids = 0;
  for (const std::string& type : read_types(config, decoder.layers)) {
    bool hybrid = type == "hybrid";
    order.push_back(!hybrid ? 0 : hybrids < blocks ? 1 : 2);
    hybrids += hybrid ? 1 : 0;
  }
  add_decoder_frame(config, decoder,
                    layer_stage("model.layers.", Stream::text, std::move(kinds), order), model);
}

}  // namespace

std::span<const Family> zamba_families() {
  static constexpr Family kFamilies[] = {{"zamba2", build_zamba2}};
  return kFamilies;
}

}  // namespace mfu
