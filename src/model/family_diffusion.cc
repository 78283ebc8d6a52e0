// Diffusion transformers from the configs of diffusers, which name their class: Flux, Stable
// Diffusion 3, DiT. `sequence` is the number of latent patches, `encoder sequence` that of text
// tokens. The text encoders are separate models. Modulations run once per picture.
#include <algorithm>

#include "model/families.h"

namespace mfu {
namespace {

// The text stream uses the wire that cross attention reads in other models.
constexpr std::uint8_t kImage = wire::stream, kText = wire::encoded;

struct Dit {
  LayerKind layer;
  std::uint64_t inner = 0, heads = 0, head_dim = 0;

  void linear(Part part, std::string_view name, std::uint64_t in, std::uint64_t out, Rows rows,
              std::uint8_t wires) {
    add_linear(layer, part, {name, in, out, true, wires, wires}, {.rows = rows});
  }
  // A time step or a pooled text becomes a vector, by two matrices per picture.
  void embedder(const std::string& name, std::uint64_t in) {
    linear(Part::modulation, name + ".linear_1", in, inner, Rows::sequences, wire::normed);
    linear(Part::modulation, name + ".linear_2", inner, inner, Rows::sequences, wire::normed);
  }
  void modulation(std::string_view name, std::uint64_t vectors) {
    linear(Part::modulation, name, inner, vectors * inner, Rows::sequences, wire::normed);
  }
  void qkv(std::string_view name, Rows rows, std::uint8_t wires) {
    Linear linear{name,     inner, 3 * inner, true, static_cast<std::uint8_t>(wires | wire::normed),
                  wire::qkv};
    add_linear(layer, Part::attention_projections, linear, {.rows = rows});
  }
  void scores(MaskKind kind) {
    Component core{.name = "attn.scores", .part = Part::attention_scores, .reads = wire::qkv};
    core.work = Attention{.mask = {kind, 0},
                          .heads = heads,
                          .kv_heads = heads,
                          .qk_dim = head_dim,
                          .v_dim = head_dim,
                          .cached = false};
    layer.components.push_back(core);
  }
  void out(std::string_view name, Rows rows, std::uint8_t writes) {
    add_linear(layer, Part::attention_projections, {name, inner, inner, true, wire::inner, writes},
               {.rows = rows});
  }
  void mlp(const std::string& name, Rows rows, std::uint8_t wires) {
    linear(Part::mlp, name + ".net.0.proj", inner, 4 * inner, rows, wires);
    linear(Part::mlp, name + ".net.2", 4 * inner, inner, rows, wires);
  }
};

void begin(ModelSpec& model, Dit& dit, const Fields& config, std::uint64_t heads,
           std::uint64_t head_dim) {
  dit.heads = config.size({"num_attention_heads"}, heads);
  dit.head_dim = config.size({"attention_head_dim"}, head_dim);
  dit.inner = dit.heads * dit.head_dim;
  model.hidden = dit.inner;
  model.ffn = 4 * dit.inner;
  model.encoder_only = true;
}

Stage finish_single(Dit& dit, std::string prefix) {
  return single_stage(std::move(prefix), Stream::text, std::move(dit.layer));
}

LayerKind flux_double(Dit dit) {
  dit.layer = {};
  dit.modulation("norm1.linear", 6);
  dit.modulation("norm1_context.linear", 6);
  dit.qkv("attn.to_qkv", Rows::tokens, kImage);
  dit.qkv("attn.add_qkv_proj", Rows::encoder, kText);
  add_weights(dit.layer, "attn.norms", Part::norm, 4 * dit.head_dim, wire::qkv);
  dit.scores(MaskKind::joint);
  dit.out("attn.to_out.0", Rows::tokens, kImage);
  dit.out("attn.to_add_out", Rows::encoder, kText);
  dit.mlp("ff", Rows::tokens, kImage);
  dit.mlp("ff_context", Rows::encoder, kText);
  return dit.layer;
}

LayerKind flux_single(Dit dit) {
  dit.layer = {};
  dit.modulation("norm.linear", 3);
  dit.qkv("attn.to_qkv", Rows::joint, kImage | kText);
  add_weights(dit.layer, "attn.norms", Part::norm, 2 * dit.head_dim, wire::qkv);
  dit.scores(MaskKind::joint);
  dit.linear(Part::mlp, "proj_mlp", dit.inner, 4 * dit.inner, Rows::joint, kImage | kText);
  dit.linear(Part::mlp, "proj_out", 5 * dit.inner, dit.inner, Rows::joint, kImage | kText);
  return dit.layer;
}

void build_flux(const Fields& config, ModelSpec& model) {
  Dit dit;
  begin(model, dit, config, 24, 128);
  model.encoder_sequence = 512;  // the length of T5's output in the pipeline
  std::uint64_t channels = config.size({"in_channels"}, 64);
  std::uint64_t patch = config.size({"patch_size"}, 1);
  std::uint64_t out = config.size({"out_channels"}, channels);
  dit.embedder("time_text_embed.timestep_embedder", 256);
  if (config.flag({"guidance_embeds"}, false)) {
    dit.embedder("time_text_embed.guidance_embedder", 256);
  }
  dit.embedder("time_text_embed.text_embedder", config.size({"pooled_projection_dim"}, 768));
  dit.linear(Part::embedding, "context_embedder", config.size({"joint_attention_dim"}, 4096),
             dit.inner, Rows::encoder, kText);
  dit.linear(Part::embedding, "x_embedder", channels, dit.inner, Rows::tokens, kImage);
  model.stages.push_back(finish_single(dit, ""));
  model.stages.push_back(uniform_stage("transformer_blocks.", Stream::text, flux_double(dit),
                                       config.layers({"num_layers"}, 19)));
  model.stages.push_back(uniform_stage("single_transformer_blocks.", Stream::text, flux_single(dit),
                                       config.layers({"num_single_layers"}, 38)));
  dit.layer = {};
  dit.modulation("norm_out.linear", 2);
  dit.linear(Part::head, "proj_out", dit.inner, patch * patch * out, Rows::tokens, kImage);
  model.stages.push_back(finish_single(dit, ""));
}

struct Sd3Style {
  bool last = false, normed = false, dual = false;
};
// The last block does not change the text stream.
LayerKind sd3_block(Dit dit, const Sd3Style& style) {
  dit.layer = {};
  std::uint64_t norms = style.normed ? 2 * dit.head_dim : 0;
  dit.modulation("norm1.linear", style.dual ? 9 : 6);
  dit.modulation("norm1_context.linear", style.last ? 2 : 6);
  dit.qkv("attn.to_qkv", Rows::tokens, kImage);
  dit.qkv("attn.add_qkv_proj", Rows::encoder, kText);
  add_weights(dit.layer, "attn.norms", Part::norm, 2 * norms, wire::qkv);
  dit.scores(MaskKind::joint);
  dit.out("attn.to_out.0", Rows::tokens, kImage);
  if (!style.last) dit.out("attn.to_add_out", Rows::encoder, kText);
  if (style.dual) {
    dit.qkv("attn2.to_qkv", Rows::tokens, kImage);
    add_weights(dit.layer, "attn2.norms", Part::norm, norms, wire::qkv);
    dit.scores(MaskKind::bidirectional);
    dit.out("attn2.to_out.0", Rows::tokens, kImage);
  }
  dit.mlp("ff", Rows::tokens, kImage);
  if (!style.last) dit.mlp("ff_context", Rows::encoder, kText);
  return dit.layer;
}

void build_sd3(const Fields& config, ModelSpec& model) {
  Dit dit;
  begin(model, dit, config, 18, 64);
  model.encoder_sequence = 333;  // 77 of CLIP and 256 of T5
  std::uint64_t channels = config.size({"in_channels"}, 16);
  std::uint64_t patch = config.size({"patch_size"}, 2);
  std::uint64_t out = config.size({"out_channels"}, channels);
  dit.linear(Part::embedding, "pos_embed.proj", channels * patch * patch, dit.inner, Rows::tokens,
             kImage);
  dit.embedder("time_text_embed.timestep_embedder", 256);
  dit.embedder("time_text_embed.text_embedder", config.size({"pooled_projection_dim"}, 2048));
  dit.linear(Part::embedding, "context_embedder", config.size({"joint_attention_dim"}, 4096),
             config.size({"caption_projection_dim"}, 1152), Rows::encoder, kText);
  model.stages.push_back(finish_single(dit, ""));
  std::vector<std::uint64_t> dual = config.counts({"dual_attention_layers"});
  bool normed = config.has("qk_norm");
  std::uint64_t layers = config.layers({"num_layers"}, 18);
  std::vector<LayerKind> kinds;
  for (std::uint32_t kind = 0; kind < 4; ++kind) {
    kinds.push_back(sd3_block(dit, {(kind & 1) != 0, normed, (kind & 2) != 0}));
  }
  std::vector<std::uint32_t> order;
  for (std::uint64_t i = 0; i < layers; ++i) {
    bool two = std::find(dual.begin(), dual.end(), i) != dual.end();
    order.push_back((i + 1 == layers ? 1u : 0u) + (two ? 2u : 0u));
  }
  model.stages.push_back(layer_stage("transformer_blocks.", Stream::text, std::move(kinds), order));
  dit.layer = {};
  dit.modulation("norm_out.linear", 2);
  dit.linear(Part::head, "proj_out", dit.inner, patch * patch * out, Rows::tokens, kImage);
  model.stages.push_back(finish_single(dit, ""));
}

// DiT (arXiv 2212.09748) in diffusers: every block has its own embedder.
void build_dit(const Fields& config, ModelSpec& model) {
  Dit dit;
  begin(model, dit, config, 16, 72);
  std::uint64_t channels = config.size({"in_channels"}, 4);
  std::uint64_t patch = config.size({"patch_size"}, 2);
  std::uint64_t out = config.size({"out_channels"}, channels);
  std::uint64_t classes = config.size({"num_embeds_ada_norm"}, 1000);
  dit.linear(Part::embedding, "pos_embed.proj", channels * patch * patch, dit.inner, Rows::tokens,
             kImage);
  model.stages.push_back(finish_single(dit, ""));
  dit.layer = {};
  dit.embedder("norm1.emb.timestep_embedder", 256);
  add_weights(dit.layer, "norm1.emb.class_embedder", Part::modulation, (classes + 1) * dit.inner,
              wire::normed);
  dit.modulation("norm1.linear", 6);
  dit.qkv("attn1.to_qkv", Rows::tokens, kImage);
  dit.scores(MaskKind::bidirectional);
  dit.out("attn1.to_out.0", Rows::tokens, kImage);
  dit.mlp("ff", Rows::tokens, kImage);
  model.stages.push_back(uniform_stage("transformer_blocks.", Stream::text, std::move(dit.layer),
                                       config.layers({"num_layers"}, 28)));
  dit.layer = {};
  // The class runs the embedder of the first block once more, which the model does not need.
  for (std::uint64_t in : {std::uint64_t{256}, dit.inner}) {
    Component again{.name = "norm1.emb", .part = Part::modulation};
    again.work = Projection{.in = in,
                            .out = dit.inner,
                            .active = 0,
                            .executed = 1,
                            .stored = false,
                            .rows = Rows::sequences};
    dit.layer.components.push_back(again);
  }
  dit.modulation("proj_out_1", 2);
  dit.linear(Part::head, "proj_out_2", dit.inner, patch * patch * out, Rows::tokens, kImage);
  model.stages.push_back(finish_single(dit, ""));
}

}  // namespace

std::span<const Family> diffusion_families() {
  static constexpr Family kFamilies[] = {{"FluxTransformer2DModel", build_flux},
                                         {"SD3Transformer2DModel", build_sd3},
                                         {"DiTTransformer2DModel", build_dit}};
  return kFamilies;
}

}  // namespace mfu
