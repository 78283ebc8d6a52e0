#include "model/blocks.h"

#include <algorithm>

namespace mfu {
namespace {

Component projection(const Place& place, std::string_view name, Part part, const Projection& work) {
  Component component;
  component.name = place.prefix + std::string(name);
  component.part = place.part_or(part);
  component.work = work;
  return component;
}

void put(LayerKind& layer, Component component, std::uint8_t reads, std::uint8_t writes) {
  component.reads = reads;
  component.writes = writes;
  layer.components.push_back(std::move(component));
}

void add_core(LayerKind& layer, const Attention& attention, const Place& place, Part part) {
  Component core{.name = place.prefix + "scores", .part = place.part_or(part), .work = attention};
  put(layer, std::move(core), wire::qkv, wire::inner);
}

}  // namespace

void add_norm(LayerKind& layer, std::string_view name, NormKind kind, std::uint64_t width,
              const Place& place) {
  Component norm{.name = place.prefix + std::string(name), .part = place.part_or(Part::norm)};
  // A norm without weights still passes the stream on.
  std::uint64_t vectors = kind == NormKind::layer ? 2 : kind == NormKind::rms ? 1 : 0;
  norm.work = Weights{vectors * width};
  put(layer, std::move(norm), place.reads, wire::normed);
}

void add_weights(LayerKind& layer, std::string_view name, Part part, std::uint64_t count,
                 std::uint8_t wires) {
  if (count == 0) return;
  Component weights{.name = std::string(name), .part = part, .work = Weights{count}};
  put(layer, std::move(weights), wires, wires);
}

void add_linear(LayerKind& layer, Part part, const Linear& linear, const Place& place) {
  Projection work{.in = linear.in, .out = linear.out, .bias = linear.bias, .rows = place.rows};
  put(layer, projection(place, linear.name, part, work), linear.reads, linear.writes);
}

void set_biases(AttentionBlock& block, bool qkv, bool out) {
  block.q_bias = block.k_bias = block.v_bias = qkv;
  block.o_bias = out;
}

void add_attention(LayerKind& layer, const AttentionBlock& block, const Place& place) {
  constexpr Part kPart = Part::attention_projections;
  std::uint64_t v_dim = block.v_dim != 0 ? block.v_dim : block.head_dim;
  std::uint64_t q_out = block.heads * block.head_dim * (block.gate ? 2 : 1);
  std::uint64_t k_out = block.kv_heads * block.head_dim, v_out = block.kv_heads * v_dim;
  auto linear = [&](std::string_view name, std::uint64_t out, bool bias, std::uint8_t writes) {
    add_linear(layer, kPart, {name, block.hidden, out, bias, place.reads, writes}, place);
  };
  if (!block.fused.empty()) {
    linear(block.fused, q_out + k_out + v_out, block.q_bias, wire::qkv);
  } else {
    linear(block.q, q_out, block.q_bias, wire::query);
    if (!block.shares_kv) {
      constexpr std::uint8_t kBoth = wire::key | wire::value;
      linear(block.k, k_out, block.k_bias, block.values_are_keys ? kBoth : wire::key);
      if (!block.values_are_keys) linear(block.v, v_out, block.v_bias, wire::value);
    }
  }
  Part norm = place.part_or(Part::norm);
  add_weights(layer, place.prefix + "q_norm", norm, block.q_norm, wire::query);
  if (!block.shares_kv) {
    add_weights(layer, place.prefix + "k_norm", norm, block.k_norm, wire::key);
  }
  add_weights(layer, place.prefix + "sinks", place.part_or(kPart), block.sinks, wire::inner);
  add_core(layer,
           {.mask = block.mask,
            .rows = place.rows,
            .heads = block.heads,
            .kv_heads = block.kv_heads,
            .qk_dim = block.head_dim,
            .v_dim = v_dim,
            .cached = !block.shares_kv,
            .cuts_cache = block.cuts_cache},
           place, Part::attention_scores);
  add_linear(layer, kPart,
             {block.o, block.heads * v_dim, block.out != 0 ? block.out : block.hidden, block.o_bias,
              wire::inner, wire::stream},
             place);
}

void add_cross_attention(LayerKind& layer, const CrossAttentionBlock& block, const Place& place) {
  constexpr Part kPart = Part::attention_projections;
  Place encoded = place;
  encoded.rows = Rows::cross;
  std::uint64_t h = block.hidden, inner = block.inner;
  add_linear(layer, kPart, {block.q, h, inner, block.q_bias, place.reads, wire::query}, place);
  add_linear(layer, kPart, {block.k, h, inner, block.k_bias, wire::encoded, wire::key}, encoded);
  add_linear(layer, kPart, {block.v, h, inner, block.v_bias, wire::encoded, wire::value}, encoded);
  add_core(layer,
           {.mask = {MaskKind::cross, 0},
            .rows = Rows::tokens,
            .heads = block.heads,
            .kv_heads = block.heads,
            .qk_dim = inner / block.heads,
            .v_dim = inner / block.heads},
           place, Part::attention_scores);
  add_linear(layer, kPart, {block.o, inner, h, block.o_bias, wire::inner, wire::stream}, place);
}

namespace {

// The indexer reads detached inputs. It is trained by a loss of its own, which HF leaves out.
void add_indexer(LayerKind& layer, const LatentAttentionBlock& block, const Place& place) {
  Place inside = place;
  inside.prefix += "indexer.";
  std::size_t first = layer.components.size();
  std::uint64_t width = block.index_heads * block.index_dim;
  std::uint64_t q_in = block.q_rank != 0 ? block.q_rank : block.hidden;
  add_linear(layer, Part::indexer, {"wq_b", q_in, width}, inside);
  add_linear(layer, Part::indexer, {"wk", block.hidden, block.index_dim}, inside);
  add_weights(layer, inside.prefix + "k_norm", place.part_or(Part::indexer), 2 * block.index_dim);
  add_linear(layer, Part::indexer, {"weights_proj", block.hidden, block.index_heads}, inside);
  // The score of each head, then their weighted sum, which is like a "value" of width 1.
  add_core(layer,
           {.mask = {MaskKind::causal, 0},
            .heads = block.index_heads,
            .kv_heads = 1,
            .qk_dim = block.index_dim,
            .v_dim = 1},
           inside, Part::indexer);
  for (std::size_t i = first; i < layer.components.size(); ++i) {
    layer.components[i].without_gradient = true;
  }
}

}  // namespace

void add_latent_attention(LayerKind& layer, const LatentAttentionBlock& block, const Place& place) {
  constexpr Part kPart = Part::attention_projections;
  Part norm = place.part_or(Part::norm);
  std::uint64_t h = block.hidden, qk = block.nope_dim + block.rope_dim;
  if (block.q_rank == 0) {
    add_linear(layer, kPart, {"q_proj", h, block.heads * qk, false, wire::normed, wire::query},
               place);
  } else {
    add_linear(layer, kPart, {"q_a_proj", h, block.q_rank, block.bias, wire::normed, wire::query},
               place);
    add_weights(layer, place.prefix + "q_a_layernorm", norm, block.q_rank, wire::query);
    add_linear(layer, kPart,
               {"q_b_proj", block.q_rank, block.heads * qk, false, wire::query, wire::query},
               place);
  }
  constexpr std::uint8_t kKeyValue = wire::key | wire::value;
  add_linear(layer, kPart,
             {"kv_a_proj_with_mqa", h, block.kv_rank + block.rope_dim, block.bias, wire::normed,
              kKeyValue},
             place);
  add_weights(layer, place.prefix + "kv_a_layernorm", norm, block.kv_rank, kKeyValue);
  Place expanded = place;
  expanded.rows = Rows::latents;
  add_linear(layer, kPart,
             {"kv_b_proj", block.kv_rank, block.heads * (block.nope_dim + block.v_dim), false,
              kKeyValue, kKeyValue},
             expanded);
  if (block.index_heads != 0) add_indexer(layer, block, place);
  add_core(layer,
           {.mask = block.mask,
            .heads = block.heads,
            .kv_heads = block.heads,
            .qk_dim = qk,
            .v_dim = block.v_dim,
            .latent_dim = block.kv_rank,
            .rope_dim = block.rope_dim},
           place, Part::attention_scores);
  add_linear(layer, kPart,
             {"o_proj", block.heads * block.v_dim, h, block.bias, wire::inner, wire::stream},
             place);
}

void add_mlp(LayerKind& layer, const MlpBlock& block, const Place& place) {
  std::uint64_t h = block.hidden, w = block.width;
  auto linear = [&](std::string_view name, std::uint64_t in, std::uint64_t out, std::uint8_t reads,
                    std::uint8_t writes) {
    add_linear(layer, Part::mlp, {name, in, out, block.bias, reads, writes}, place);
  };
  if (!block.fused.empty()) {
    linear(block.fused, h, 2 * w, place.reads, wire::inner);
  } else {
    if (block.gated) linear(block.gate, h, w, place.reads, wire::inner);
    linear(block.up, h, w, place.reads, wire::inner);
  }
  linear(block.down, w, h, wire::inner, wire::stream);
}

void add_experts(LayerKind& layer, const ExpertsBlock& block, const Place& place) {
  std::uint64_t h = block.hidden, w = block.width;
  std::uint64_t run = block.runs_all ? block.experts : block.active;
  add_linear(layer, Part::router,
             {block.router, h, block.experts, block.router_bias, place.reads, wire::inner}, place);
  if (block.correction_bias) {
    add_weights(layer, place.prefix + "gate.e_score_correction_bias",
                place.part_or(Part::router_bias), block.experts);
    layer.components.back().without_gradient = true;
  }
  auto experts = [&](std::string_view name, std::uint64_t in, std::uint64_t out, std::uint8_t reads,
                     std::uint8_t writes) {
    Projection work{.in = in,
                    .out = out,
                    .copies = block.experts,
                    .active = block.active,
                    .executed = run,
                    .bias = block.bias,
                    .rows = place.rows};
    put(layer, projection(place, name, Part::experts, work), reads, writes);
  };
  std::uint64_t width = block.latent != 0 ? block.latent : h;
  std::uint8_t reads = block.latent != 0 ? wire::inner : place.reads;
  if (block.latent != 0) {
    add_linear(layer, Part::experts,
               {"fc1_latent_proj", h, width, block.bias, place.reads, wire::inner}, place);
  }
  experts(block.gated ? "experts.gate_up_proj" : "experts.up_proj", width, block.gated ? 2 * w : w,
          reads, wire::inner);
  experts("experts.down_proj", w, width, wire::inner,
          block.latent != 0 ? wire::inner : wire::stream);
  if (block.latent != 0) {
    add_linear(layer, Part::experts,
               {"fc2_latent_proj", width, h, block.bias, wire::inner, wire::stream}, place);
  }
  if (block.shared_width == 0) return;
  Place shared = place;
  shared.prefix += std::string(block.shared) + ".";
  shared.part = place.part_or(Part::shared_experts);
  add_mlp(
      layer,
      {.hidden = h, .width = block.shared_width, .gated = block.gated, .bias = block.shared_bias},
      shared);
  if (block.shared_gate) {
    add_linear(layer, Part::router, {"shared_expert_gate", h, 1, false, place.reads, wire::inner},
               place);
  }
}

Stage single_stage(std::string prefix, Stream stream, LayerKind kind) {
  Stage stage{.prefix = std::move(prefix), .repeated = false, .stream = stream};
  stage.kinds.push_back(std::move(kind));
  stage.order.push_back({0, 1});
  return stage;
}

LayerKind borrowed(LayerKind layer) {
  for (Component& component : layer.components) {
    if (auto* matrix = std::get_if<Projection>(&component.work)) matrix->stored = false;
    if (std::holds_alternative<Weights>(component.work)) component.work = Weights{0};
  }
  return layer;
}

Stage layer_stage(std::string prefix, Stream stream, std::vector<LayerKind> kinds,
                  const std::vector<std::uint32_t>& kind_of_layer) {
  Stage stage{.prefix = std::move(prefix), .stream = stream};
  stage.kinds = std::move(kinds);
  for (std::uint32_t kind : kind_of_layer) {
    if (stage.order.empty() || stage.order.back().kind != kind) stage.order.push_back({kind, 0});
    ++stage.order.back().count;
  }
  return stage;
}

Stage uniform_stage(std::string prefix, Stream stream, LayerKind kind, std::uint64_t layers) {
  Stage stage{.prefix = std::move(prefix), .stream = stream};
  stage.kinds.push_back(std::move(kind));
  if (layers != 0) stage.order.push_back({0, layers});
  return stage;
}

Stage head_stage(const Head& head) {
  LayerKind layer;
  Projection work{.in = head.hidden,
                  .out = head.out,
                  .bias = head.bias && !head.tied,
                  .stored = !head.tied,
                  .rows = head.rows};
  Part part = head.name == "lm_head" ? Part::lm_head : Part::head;
  put(layer, projection({}, head.name, part, work), wire::normed, wire::inner);
  if (head.bias && head.tied) add_weights(layer, "lm_head.bias", part, head.out, wire::inner);
  return single_stage("", Stream::text, std::move(layer));
}

Stage embedding_stage(std::string prefix, std::string_view name, std::uint64_t vocab,
                      std::uint64_t width, std::uint64_t positions) {
  LayerKind layer;
  add_weights(layer, name, Part::embedding, vocab * width, wire::stream);
  add_weights(layer, "embed_positions", Part::position_embedding, positions * width, wire::stream);
  return single_stage(std::move(prefix), Stream::text, std::move(layer));
}

}  // namespace mfu
