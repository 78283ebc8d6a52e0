// ALBERT (arXiv 1909.11942): a narrow embedding that is widened once, and layers that share their
// weights.
#include "model/families.h"

namespace mfu {
namespace {

LayerKind albert_layer(const Fields& config, std::uint64_t hidden, std::uint64_t heads,
                       std::uint64_t ffn) {
  LayerKind layer;
  AttentionBlock attention{.hidden = hidden,
                           .heads = heads,
                           .kv_heads = heads,
                           .head_dim = config.head_width(hidden, heads),
                           .mask = {MaskKind::bidirectional, 0},
                           .q = "query",
                           .k = "key",
                           .v = "value",
                           .o = "dense"};
  set_biases(attention, true, true);
  add_attention(layer, attention, {.prefix = "attention.", .reads = wire::stream});
  add_weights(layer, "attention.LayerNorm", Part::norm, 2 * hidden, wire::stream);
  add_mlp(layer,
          {.hidden = hidden,
           .width = ffn,
           .gated = false,
           .bias = true,
           .up = "ffn",
           .down = "ffn_output"},
          {.reads = wire::stream});
  add_weights(layer, "full_layer_layer_norm", Part::norm, 2 * hidden, wire::stream);
  return layer;
}

// A group of layers is stored once and runs again for each of its layers.
void add_layers(const Fields& config, ModelSpec& model) {
  std::uint64_t layers = config.layers({"num_hidden_layers"}, 12);
  std::uint64_t groups = config.layers({"num_hidden_groups"}, 1);
  std::uint64_t inner = config.layers({"inner_group_num"}, 1);
  if (groups == 0 || inner == 0) {
    config.complain("num_hidden_groups", "a group or its layers are 0");
    return;
  }
  if (groups > layers || inner > 1000 || layers * inner > 100'000) {
    config.complain("num_hidden_groups", "more groups than layers, or too many layers in all");
    return;
  }
  LayerKind own =
      albert_layer(config, model.hidden, config.size({"num_attention_heads"}, 64), model.ffn);
  std::vector<std::uint32_t> order;
  std::uint64_t seen = 0;
  for (std::uint64_t i = 0; i < layers; ++i) {
    std::uint64_t group = i * groups / layers;
    order.insert(order.end(), inner, group >= seen ? 0 : 1);
    seen = std::max(seen, group + 1);
  }
  LayerKind again = borrowed(own);
  model.stages.push_back(layer_stage("albert.encoder.layers.", Stream::text,
                                     {std::move(own), std::move(again)}, order));
}

void add_dense(ModelSpec& model, const Linear& linear, Part part, Rows rows) {
  LayerKind layer;
  add_linear(layer, part, linear, {.rows = rows});
  model.stages.push_back(single_stage("", Stream::text, std::move(layer)));
}

void add_masked_head(ModelSpec& model, std::uint64_t narrow) {
  add_dense(model, {"predictions.dense", model.hidden, narrow, true, wire::stream, wire::stream},
            Part::lm_head, Rows::tokens);
  LayerKind last;
  add_weights(last, "predictions.LayerNorm", Part::norm, 2 * narrow, wire::stream);
  Component decoder{.name = "predictions.decoder", .part = Part::lm_head, .reads = wire::stream};
  decoder.work = Projection{.in = narrow, .out = model.vocab, .stored = false};
  last.components.push_back(decoder);
  add_weights(last, "predictions.bias", Part::lm_head, model.vocab, wire::inner);
  model.stages.push_back(single_stage("", Stream::text, std::move(last)));
  model.tied = true;
}

void build_albert(const Fields& config, ModelSpec& model) {
  std::uint64_t narrow = config.size({"embedding_size"}, 128);
  model.hidden = config.size({"hidden_size"}, 4096);
  model.vocab = config.size({"vocab_size"}, 30000);
  model.ffn = config.size({"intermediate_size"}, 16384);
  model.encoder_only = true;
  std::uint64_t h = model.hidden;
  LayerKind tables;
  add_weights(tables, "word_embeddings", Part::embedding, model.vocab * narrow, wire::stream);
  add_weights(tables, "position_embeddings", Part::position_embedding,
              config.size({"max_position_embeddings"}, 512) * narrow, wire::stream);
  add_weights(tables, "token_type_embeddings", Part::embedding,
              config.count({"type_vocab_size"}, 2) * narrow, wire::stream);
  add_weights(tables, "LayerNorm", Part::norm, 2 * narrow, wire::stream);
  model.stages.push_back(single_stage("albert.embeddings.", Stream::text, std::move(tables)));
  add_dense(
      model,
      {"albert.encoder.embedding_hidden_mapping_in", narrow, h, true, wire::stream, wire::stream},
      Part::mlp, Rows::tokens);
  add_layers(config, model);
  HeadKind kind = head_of(model);
  bool masked = model.architecture.ends_with("ForMaskedLM");
  bool pretraining = model.architecture.ends_with("ForPreTraining");
  if (kind == HeadKind::none || kind == HeadKind::sequence ||
      (kind == HeadKind::language && !masked)) {
    add_dense(model, {"albert.pooler", h, h, true, wire::stream, wire::stream}, Part::head,
              Rows::sequences);
  }
  if (masked || pretraining) add_masked_head(model, narrow);
  if (kind == HeadKind::none || (kind == HeadKind::language && !pretraining)) return;
  bool of_sequence = kind == HeadKind::sequence || pretraining;
  add_dense(model,
            {kind == HeadKind::question ? "qa_outputs" : "classifier", h,
             kind == HeadKind::question ? 2 : labels_of(config), true, wire::stream, wire::stream},
            Part::head, of_sequence ? Rows::sequences : Rows::tokens);
}

}  // namespace

std::span<const Family> albert_families() {
  static constexpr Family kFamilies[] = {{"albert", build_albert}};
  return kFamilies;
}

}  // namespace mfu
