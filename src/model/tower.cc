#include "model/tower.h"

#include <algorithm>

namespace mfu {
namespace {

LayerKind tower_layer(const Tower& tower, const Mask& mask) {
  LayerKind layer;
  Place place{.rows = Rows::tower, .part = Part::vision};
  Place stream{.rows = Rows::tower, .reads = wire::stream, .part = Part::vision};
  AttentionBlock attention{.hidden = tower.hidden,
                           .heads = tower.heads,
                           .kv_heads = tower.heads,
                           .head_dim = std::max<std::uint64_t>(tower.hidden / tower.heads, 1),
                           .mask = mask,
                           .q = tower.q,
                           .k = tower.k,
                           .v = tower.v,
                           .o = tower.o};
  if (tower.fused_qkv) attention.fused = "attn.qkv";
  set_biases(attention, tower.qkv_bias, tower.out_bias);
  if (tower.qk_norm) attention.q_norm = attention.k_norm = tower.hidden;
  add_norm(layer, "layer_norm1", tower.norm, tower.hidden, stream);
  add_attention(layer, attention, place);
  add_norm(layer, "layer_norm2", tower.norm, tower.hidden, stream);
  add_mlp(layer,
          {.hidden = tower.hidden,
           .width = tower.ffn,
           .gated = tower.gated,
           .bias = tower.mlp_bias,
           .gate = "mlp.gate_proj",
           .up = tower.up,
           .down = tower.down},
          place);
  if (tower.scales != 0) add_vision_weights(layer, "layer_scale", tower.scales);
  return layer;
}

std::uint64_t norm_parameters(const Tower& tower) {
  return tower.norm == NormKind::layer ? 2 * tower.hidden : tower.hidden;
}

}  // namespace

void add_vision_linear(LayerKind& layer, std::string_view name, std::uint64_t in, std::uint64_t out,
                       bool bias, Rows rows) {
  Component component{.name = std::string(name),
                      .part = Part::vision,
                      .reads = wire::stream,
                      .writes = wire::stream};
  component.work = Projection{.in = in, .out = out, .bias = bias, .rows = rows};
  layer.components.push_back(std::move(component));
}

void add_vision_weights(LayerKind& layer, std::string_view name, std::uint64_t count) {
  add_weights(layer, name, Part::vision, count, wire::stream);
}

void add_tower(ModelSpec& model, const Tower& tower) {
  LayerKind inputs;
  Component patches{
      .name = "patch_embedding", .part = Part::vision, .reads = 0, .writes = wire::stream};
  patches.work = Projection{.in = tower.patch_inputs,
                            .out = tower.hidden,
                            .bias = tower.patch_bias,
                            .rows = Rows::patches};
  inputs.components.push_back(std::move(patches));
  add_vision_weights(inputs, "class_embedding", tower.class_tokens * tower.hidden);
  add_vision_weights(inputs, "position_embedding", tower.positions * tower.hidden);
  if (tower.norm_before) add_vision_weights(inputs, "pre_layernorm", norm_parameters(tower));
  model.stages.push_back(single_stage(tower.prefix, Stream::vision, std::move(inputs)));
  Mask everywhere{MaskKind::bidirectional, 0}, blocks{MaskKind::blocks, tower.block};
  std::vector<std::uint32_t> order;
  for (std::uint64_t i = 0; i < tower.layers; ++i) {
    bool global = tower.block == 0 ||
                  std::find(tower.global.begin(), tower.global.end(), i) != tower.global.end();
    order.push_back(global ? 0 : 1);
  }
  model.stages.push_back(layer_stage(tower.prefix + "layers.", Stream::vision,
                                     {tower_layer(tower, everywhere), tower_layer(tower, blocks)},
                                     order));
  if (!tower.norm_after) return;
  LayerKind last;
  add_vision_weights(last, "post_layernorm", norm_parameters(tower));
  model.stages.push_back(single_stage(tower.prefix, Stream::vision, std::move(last)));
}

PatchGrid read_patch_grid(const Fields& config, std::uint64_t image, std::uint64_t patch) {
  PatchGrid grid;
  // Pictures are square, even if the config gives both sides.
  auto side = [&](std::string_view name, std::uint64_t fallback) {
    std::uint64_t both = config.members(name);
    if (both == 0) return config.size({name}, fallback);
    std::vector<std::uint64_t> sides = config.counts({name});
    bool square = !sides.empty() && sides.front() == sides.back() && sides.front() != 0;
    if (!square) config.complain(name, "not square, or 0");
    return square ? sides.front() : 1;
  };
  grid.patch = side("patch_size", patch);
  std::uint64_t pixels = side("image_size", image);
  grid.side = pixels / grid.patch;
  if (grid.side == 0 || pixels > 1 << 20) {
    config.complain("image_size", "smaller than patch_size, or beyond 2^20");
    grid.side = 1;
  }
  return grid;
}

Tower read_tower(const Fields& config, const PatchGrid& grid, const TowerDefaults& defaults) {
  Tower tower;
  tower.hidden = config.size({"hidden_size"}, defaults.hidden);
  tower.layers = config.layers({"num_hidden_layers"}, defaults.layers);
  tower.heads = config.size({"num_attention_heads"}, defaults.heads);
  config.head_width(tower.hidden, tower.heads);
  tower.ffn = config.size({"intermediate_size"}, defaults.ffn);
  tower.patch_inputs = config.size({"num_channels"}, 3) * grid.patch * grid.patch;
  return tower;
}

Tower read_clip_tower(const Fields& config, ModelSpec& model) {
  PatchGrid grid = read_patch_grid(config, 224, 32);
  Tower tower = read_tower(config, grid);
  tower.patch_bias = false;
  tower.class_tokens = 1;
  tower.positions = grid.patches() + 1;
  tower.norm_before = true;
  model.image = ImageShape{.usual = {1, grid.side, grid.side}, .class_tokens = 1};
  return tower;
}

Tower read_siglip_tower(const Fields& config, ModelSpec& model) {
  PatchGrid grid = read_patch_grid(config, 224, 16);
  Tower tower = read_tower(config, grid);
  tower.positions = grid.patches();
  tower.pooling_head = config.flag({"vision_use_head"}, true);
  model.image = ImageShape{.usual = {1, grid.side, grid.side}};
  return tower;
}

void add_siglip_head(ModelSpec& model, const Tower& tower, bool read) {
  std::uint64_t h = tower.hidden;
  LayerKind head;
  add_vision_weights(head, "probe", h);
  add_vision_linear(head, "attention.q", h, h, true, Rows::images);
  add_vision_linear(head, "attention.kv", h, 2 * h, true, Rows::tower);
  // Scores and values of one query per picture: 2 h multiply-adds per patch.
  add_vision_linear(head, "attention.scores", 1, 2 * h, false, Rows::tower);
  std::get<Projection>(head.components.back().work).stored = false;
  add_vision_linear(head, "attention.out_proj", h, h, true, Rows::images);
  add_vision_weights(head, "layernorm", 2 * h);
  add_vision_linear(head, "mlp.fc1", h, tower.ffn, true, Rows::images);
  add_vision_linear(head, "mlp.fc2", tower.ffn, h, true, Rows::images);
  for (Component& component : head.components) component.without_gradient = !read;
  model.stages.push_back(single_stage(tower.prefix + "head.", Stream::vision, std::move(head)));
}

}  // namespace mfu
