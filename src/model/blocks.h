// The blocks that families are made of: attention, MLP, experts, norms, tables. Each adds
// components to a layer in the order of the forward pass, because gradients follow that order back
// (wire::).
#pragma once

#include <string>
#include <string_view>

#include "mfu/model.h"

namespace mfu {

enum class NormKind : std::uint8_t { rms, layer, none };  // layer: layer norms, which have a bias

// The place of a block in its model: the prefix of its weights' names, and which rows it sees.
struct Place {
  std::string prefix{};      // "self_attn."
  Rows rows = Rows::tokens;  // also selects the lengths that the mask covers
  std::uint8_t reads = wire::normed;
  // All work of a tower or MTP block counts for this part. Otherwise each component has its own.
  std::optional<Part> part{};
  Part part_or(Part own) const { return part.value_or(own); }
};

void add_norm(LayerKind& layer, std::string_view name, NormKind kind, std::uint64_t width,
              const Place& place = {.reads = wire::stream});
void add_weights(LayerKind& layer, std::string_view name, Part part, std::uint64_t count,
                 std::uint8_t wires = 0);

struct Linear {
  std::string_view name{};
  std::uint64_t in = 0, out = 0;
  bool bias = false;
  std::uint8_t reads = wire::normed, writes = wire::inner;
};
void add_linear(LayerKind& layer, Part part, const Linear& linear, const Place& place = {});

struct AttentionBlock {
  std::uint64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::uint64_t v_dim = 0;  // 0: head_dim
  std::uint64_t out = 0;    // 0 means hidden
  Mask mask{};
  bool q_bias = false, k_bias = false, v_bias = false, o_bias = false;
  std::string_view q = "q_proj", k = "k_proj", v = "v_proj", o = "o_proj";
  std::string_view fused{};              // one matrix instead of q, k, v
  std::uint64_t q_norm = 0, k_norm = 0;  // their numbers of parameters
  bool gate = false;                     // the query projection also makes an output gate
  bool shares_kv = false;                // keys and values are those of another layer
  bool cuts_cache = true;
  bool values_are_keys = false;  // no value projection
  std::uint64_t sinks = 0;
};
void add_attention(LayerKind& layer, const AttentionBlock& block, const Place& place);
void set_biases(AttentionBlock& block, bool qkv, bool out);

struct CrossAttentionBlock {
  std::uint64_t hidden = 0, inner = 0, heads = 0;
  bool q_bias = false, k_bias = false, v_bias = false, o_bias = false;
  std::string_view q = "q_proj", k = "k_proj", v = "v_proj", o = "o_proj";
};
void add_cross_attention(LayerKind& layer, const CrossAttentionBlock& block, const Place& place);

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434 §2.1).
struct LatentAttentionBlock {
  std::uint64_t hidden = 0, heads = 0;
  std::uint64_t q_rank = 0;  // 0: the query is not compressed
  std::uint64_t kv_rank = 0, nope_dim = 0, rope_dim = 0, v_dim = 0;
  Mask mask{};
  bool bias = false;
  // DeepSeek sparse attention: the indexer that chooses top_k keys. With 0 heads there is none.
  std::uint64_t index_heads = 0, index_dim = 0;
};
void add_latent_attention(LayerKind& layer, const LatentAttentionBlock& block, const Place& place);

struct MlpBlock {
  std::uint64_t hidden = 0, width = 0;
  bool gated = true, bias = false;
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::string_view fused{};  // one matrix instead of gate and up
};
void add_mlp(LayerKind& layer, const MlpBlock& block, const Place& place);

struct ExpertsBlock {
  std::uint64_t hidden = 0, width = 0, experts = 0, active = 0;
  std::uint64_t latent = 0;  // above 0: experts have this width, between two more matrices
  bool gated = true, bias = false;
  bool router_bias = false;        // of the router's matrix multiply
  bool correction_bias = false;    // stored next to the scores
  bool runs_all = false;           // the HF class sends every token through every expert
  std::uint64_t shared_width = 0;  // 0: no shared expert
  bool shared_bias = false;
  bool shared_gate = false;  // one more output scales the shared expert
  std::string_view router = "gate", shared = "shared_experts";
};
void add_experts(LayerKind& layer, const ExpertsBlock& block, const Place& place);

struct Mamba2Block {
  std::uint64_t hidden = 0, heads = 0, head_dim = 0, state = 0, groups = 1, kernel = 4, chunk = 256;
  bool bias = false, out_bias = false, conv_bias = true, gated_norm = true;
};
void add_mamba2(LayerKind& layer, const Mamba2Block& block, const Place& place);

struct MambaBlock {
  std::uint64_t hidden = 0, inner = 0, state = 16, rank = 0, kernel = 4;
  bool bias = false, conv_bias = true;
  std::uint64_t extra_norms = 0;  // parameters of the norms on dt, B and C (Jamba)
};
void add_mamba(LayerKind& layer, const MambaBlock& block, const Place& place);

struct DeltaNetBlock {
  std::uint64_t hidden = 0, key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, kernel = 4;
  bool split_inputs = false;  // four input matrices (Qwen3.5) instead of two (Qwen3-Next)
};
void add_delta_net(LayerKind& layer, const DeltaNetBlock& block, const Place& place);

// A stage with a single layer that does not repeat.
Stage single_stage(std::string prefix, Stream stream, LayerKind kind);

// The same layer without weights of its own: it uses those of another layer.
LayerKind borrowed(LayerKind layer);

// Makes a stage from a list of layer kinds by index. Equal neighbours become one run.
Stage layer_stage(std::string prefix, Stream stream, std::vector<LayerKind> kinds,
                  const std::vector<std::uint32_t>& kind_of_layer);
Stage uniform_stage(std::string prefix, Stream stream, LayerKind kind, std::uint64_t layers);

struct Head {
  std::uint64_t hidden = 0, out = 0;
  bool bias = false, tied = false;
  std::string_view name = "lm_head";
  Rows rows = Rows::logits;
};
Stage head_stage(const Head& head);
Stage embedding_stage(std::string prefix, std::string_view name, std::uint64_t vocab,
                      std::uint64_t width, std::uint64_t positions = 0);

}  // namespace mfu
