// State-space and linear-attention mixers as blocks.
#include "model/blocks.h"

namespace mfu {
namespace {

constexpr std::uint8_t kInner = wire::inner;

template <typename Work>
void add_mixing(LayerKind& layer, const Place& place, std::string_view name, const Work& work) {
  layer.components.push_back({.name = place.prefix + std::string(name),
                              .part = place.part_or(Part::ssm),
                              .reads = kInner,
                              .writes = kInner,
                              .work = work});
}

}  // namespace

// Mamba-2 (arXiv 2405.21060): one input matrix makes gate, x, B, C and dt; x, B and C are
// convolved.
void add_mamba2(LayerKind& layer, const Mamba2Block& block, const Place& place) {
  std::uint64_t inner = block.heads * block.head_dim;
  std::uint64_t convolved = inner + 2 * block.groups * block.state;
  Part part = place.part_or(Part::ssm);
  add_linear(
      layer, part,
      {"in_proj", block.hidden, inner + convolved + block.heads, block.bias, place.reads, kInner},
      place);
  add_mixing(layer, place, "conv1d", Convolution{convolved, block.kernel, block.conv_bias});
  for (std::string_view name : {"dt_bias", "A_log", "D"}) {
    add_weights(layer, place.prefix + std::string(name), part, block.heads, kInner);
  }
  add_mixing(layer, place, "scan",
             Recurrence{.kind = RecurrenceKind::mamba2,
                        .heads = block.heads,
                        .key_dim = block.state,
                        .value_dim = block.head_dim,
                        .chunk = block.chunk});
  if (block.gated_norm) add_weights(layer, place.prefix + "norm", part, inner, kInner);
  add_linear(layer, part, {"out_proj", inner, block.hidden, block.out_bias, kInner, wire::stream},
             place);
}

// Mamba (arXiv 2312.00752): each channel has a diagonal state of size N, and dt is made through a
// low rank.
void add_mamba(LayerKind& layer, const MambaBlock& block, const Place& place) {
  Part part = place.part_or(Part::ssm);
  std::uint64_t d = block.inner;
  add_linear(layer, part, {"in_proj", block.hidden, 2 * d, block.bias, place.reads, kInner}, place);
  add_mixing(layer, place, "conv1d", Convolution{d, block.kernel, block.conv_bias});
  add_linear(layer, part, {"x_proj", d, block.rank + 2 * block.state, false, kInner, kInner},
             place);
  add_weights(layer, place.prefix + "norms", part, block.extra_norms, kInner);
  add_linear(layer, part, {"dt_proj", block.rank, d, true, kInner, kInner}, place);
  add_weights(layer, place.prefix + "A_log", part, d * block.state, kInner);
  add_weights(layer, place.prefix + "D", part, d, kInner);
  add_mixing(
      layer, place, "scan",
      Recurrence{
          .kind = RecurrenceKind::mamba, .heads = 1, .key_dim = block.state, .value_dim = d});
  add_linear(layer, part, {"out_proj", d, block.hidden, block.bias, kInner, wire::stream}, place);
}

// Gated DeltaNet (arXiv 2412.06464) as in Qwen3-Next and Qwen3.5. torch's chunks have 64 tokens.
void add_delta_net(LayerKind& layer, const DeltaNetBlock& block, const Place& place) {
  Part part = place.part_or(Part::ssm);
  std::uint64_t keys = block.key_heads * block.key_dim;
  std::uint64_t values = block.value_heads * block.value_dim;
  auto input = [&](std::string_view name, std::uint64_t out) {
    add_linear(layer, part, {name, block.hidden, out, false, place.reads, kInner}, place);
  };
  if (block.split_inputs) {
    input("in_proj_qkv", 2 * keys + values);
    input("in_proj_z", values);
    input("in_proj_b", block.value_heads);
    input("in_proj_a", block.value_heads);
  } else {
    input("in_proj_qkvz", 2 * keys + 2 * values);
    input("in_proj_ba", 2 * block.value_heads);
  }
  add_mixing(layer, place, "conv1d", Convolution{2 * keys + values, block.kernel, false});
  add_weights(layer, place.prefix + "dt_bias", part, block.value_heads, kInner);
  add_weights(layer, place.prefix + "A_log", part, block.value_heads, kInner);
  add_mixing(layer, place, "scan",
             Recurrence{.kind = RecurrenceKind::delta_rule,
                        .heads = block.value_heads,
                        .key_dim = block.key_dim,
                        .value_dim = block.value_dim,
                        .chunk = 64});
  add_weights(layer, place.prefix + "norm", part, block.value_dim, kInner);
  add_linear(layer, part, {"out_proj", values, block.hidden, false, kInner, wire::stream}, place);
}

}  // namespace mfu
