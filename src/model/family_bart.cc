// BART (arXiv 1910.13461) and mBART: an encoder and a decoder with learned positions. BART has
// norms after each block. mBART has them before each block, and once more at the end of each stack.
#include "model/families.h"

namespace mfu {
namespace {

struct BartShape {
  std::uint64_t hidden = 0, heads = 0, ffn = 0, layers = 0, positions = 0;
  bool decoder = false, norm_first = false;
};

BartShape read_stack(const Fields& config, std::uint64_t hidden, bool decoder) {
  BartShape shape{.hidden = hidden, .decoder = decoder};
  if (decoder) {
    shape.heads = config.size({"decoder_attention_heads"}, 16);
    shape.ffn = config.size({"decoder_ffn_dim"}, 4096);
    shape.layers = config.layers({"decoder_layers"}, 12);
  } else {
    shape.heads = config.size({"encoder_attention_heads", "num_attention_heads"}, 16);
    shape.ffn = config.size({"encoder_ffn_dim"}, 4096);
    shape.layers = config.layers({"encoder_layers", "num_hidden_layers"}, 12);
  }
  config.head_width(hidden, shape.heads);
  shape.positions = config.size({"max_position_embeddings"}, 1024) + 2;  // two are never used
  return shape;
}

LayerKind bart_layer(const BartShape& shape) {
  LayerKind layer;
  std::uint64_t h = shape.hidden;
  Rows rows = shape.decoder ? Rows::tokens : Rows::encoder;
  std::uint8_t reads = shape.norm_first ? wire::normed : wire::stream;
  auto before = [&](std::string_view name) {
    if (shape.norm_first) add_norm(layer, name, NormKind::layer, h);
  };
  auto after = [&](std::string_view name) {
    if (!shape.norm_first) add_weights(layer, name, Part::norm, 2 * h, wire::stream);
  };
  AttentionBlock attention{.hidden = h,
                           .heads = shape.heads,
                           .kv_heads = shape.heads,
                           .head_dim = std::max<std::uint64_t>(h / shape.heads, 1),
                           .mask = {shape.decoder ? MaskKind::causal : MaskKind::bidirectional, 0},
                           .o = "out_proj"};
  set_biases(attention, true, true);
  before("self_attn_layer_norm");
  add_attention(layer, attention, {.prefix = "self_attn.", .rows = rows, .reads = reads});
  after("self_attn_layer_norm");
  if (shape.decoder) {
    before("encoder_attn_layer_norm");
    add_cross_attention(layer,
                        {.hidden = h,
                         .inner = attention.heads * attention.head_dim,
                         .heads = shape.heads,
                         .q_bias = true,
                         .k_bias = true,
                         .v_bias = true,
                         .o_bias = true,
                         .o = "out_proj"},
                        {.prefix = "encoder_attn.", .reads = reads});
    after("encoder_attn_layer_norm");
  }
  before("final_layer_norm");
  add_mlp(
      layer,
      {.hidden = h, .width = shape.ffn, .gated = false, .bias = true, .up = "fc1", .down = "fc2"},
      {.rows = rows, .reads = reads});
  after("final_layer_norm");
  return layer;
}

// Both stacks use one table, which is stored with the first.
void add_stack(ModelSpec& model, const BartShape& shape) {
  Stream stream = shape.decoder ? Stream::text : Stream::encoder;
  std::string prefix = shape.decoder ? "model.decoder." : "model.encoder.";
  std::uint64_t h = shape.hidden;
  LayerKind inputs;
  add_weights(inputs, "embed_tokens", Part::embedding, 1, wire::stream);
  inputs.components[0].work = Weights{shape.decoder ? 0 : model.vocab * h};
  add_weights(inputs, "embed_positions", Part::position_embedding, shape.positions * h,
              wire::stream);
  add_weights(inputs, "layernorm_embedding", Part::norm, 2 * h, wire::stream);
  model.stages.push_back(single_stage(prefix, stream, std::move(inputs)));
  model.stages.push_back(
      uniform_stage(prefix + "layers.", stream, bart_layer(shape), shape.layers));
  if (!shape.norm_first) return;
  LayerKind last;
  add_weights(last, "layer_norm", Part::norm, 2 * h, wire::stream);
  model.stages.push_back(single_stage(prefix, stream, std::move(last)));
}

void add_head(ModelSpec& model, std::string_view name, std::uint64_t out, Rows rows) {
  LayerKind layer;
  add_linear(layer, Part::head, {name, model.hidden, out, true, wire::stream, wire::stream},
             {.rows = rows});
  model.stages.push_back(single_stage("", Stream::text, std::move(layer)));
}

void build_bart(const Fields& config, ModelSpec& model) {
  model.hidden = config.size({"d_model", "hidden_size"}, 1024);
  model.vocab = config.size({"vocab_size"}, 50265);
  BartShape encoder = read_stack(config, model.hidden, false);
  BartShape decoder = read_stack(config, model.hidden, true);
  encoder.norm_first = decoder.norm_first = model.type == "mbart";
  model.ffn = decoder.ffn;
  add_stack(model, encoder);
  add_stack(model, decoder);
  switch (head_of(model)) {
    case HeadKind::language: {
      model.tied = config.flag({"tie_word_embeddings"}, true);
      Stage head = head_stage({.hidden = model.hidden, .out = model.vocab, .tied = model.tied});
      head.kinds[0].components[0].reads = wire::stream;
      model.stages.push_back(std::move(head));
      break;
    }
    case HeadKind::sequence:
      add_head(model, "classification_head.dense", model.hidden, Rows::sequences);
      add_head(model, "classification_head.out_proj",
               config.has("num_labels") || config.has("id2label") ? labels_of(config) : 3,
               Rows::sequences);
      break;
    case HeadKind::question:
      add_head(model, "qa_outputs", 2, Rows::tokens);
      break;
    default:
      break;
  }
}

}  // namespace

std::span<const Family> bart_families() {
  static constexpr Family kFamilies[] = {{"bart", build_bart}, {"mbart", build_bart}};
  return kFamilies;
}

}  // namespace mfu
