// Bidirectional encoders: BERT, RoBERTa, DistilBERT, ModernBERT.
#include "model/families.h"

namespace mfu {
namespace {

struct EncoderShape {
  std::string prefix;
  std::uint64_t hidden = 0, layers = 0, heads = 0, ffn = 0, vocab = 0, positions = 0, types = 0;
};

void add_output_norm(LayerKind& layer, std::string_view name, std::uint64_t hidden) {
  add_weights(layer, name, Part::norm, 2 * hidden, wire::stream);
}

LayerKind post_norm_layer(const EncoderShape& shape) {
  LayerKind layer;
  AttentionBlock attention{.hidden = shape.hidden,
                           .heads = shape.heads,
                           .kv_heads = shape.heads,
                           .head_dim = std::max<std::uint64_t>(shape.hidden / shape.heads, 1),
                           .mask = {MaskKind::bidirectional, 0},
                           .q = "self.query",
                           .k = "self.key",
                           .v = "self.value",
                           .o = "output.dense"};
  set_biases(attention, true, true);
  add_attention(layer, attention, {.prefix = "attention.", .reads = wire::stream});
  add_output_norm(layer, "attention.output.LayerNorm", shape.hidden);
  add_mlp(layer,
          {.hidden = shape.hidden,
           .width = shape.ffn,
           .gated = false,
           .bias = true,
           .up = "intermediate.dense",
           .down = "output.dense"},
          {.reads = wire::stream});
  add_output_norm(layer, "output.LayerNorm", shape.hidden);
  return layer;
}

void add_encoder(const EncoderShape& shape, ModelSpec& model) {
  model.hidden = shape.hidden;
  model.vocab = shape.vocab;
  model.ffn = shape.ffn;
  model.encoder_only = true;
  LayerKind tables;
  std::uint64_t h = shape.hidden;
  add_weights(tables, "embeddings.word_embeddings", Part::embedding, shape.vocab * h, wire::stream);
  add_weights(tables, "embeddings.position_embeddings", Part::position_embedding,
              shape.positions * h, wire::stream);
  add_weights(tables, "embeddings.token_type_embeddings", Part::embedding, shape.types * h,
              wire::stream);
  add_output_norm(tables, "embeddings.LayerNorm", h);
  model.stages.push_back(single_stage(shape.prefix, Stream::text, std::move(tables)));
  model.stages.push_back(uniform_stage(shape.prefix + "encoder.layer.", Stream::text,
                                       post_norm_layer(shape), shape.layers));
}

void add_dense(ModelSpec& model, std::string_view name, Part part, const Linear& linear,
               Rows rows) {
  LayerKind layer;
  Linear named = linear;
  named.name = name;
  named.reads = named.writes = wire::stream;
  add_linear(layer, part, named, {.rows = rows});
  model.stages.push_back(single_stage("", Stream::text, std::move(layer)));
}

bool is_masked_language_model(const ModelSpec& model) {
  return model.architecture.ends_with("ForMaskedLM") ||
         model.architecture.ends_with("ForPreTraining");
}

// A dense layer and a norm before the tied decoder, whose bias is its own.
void add_masked_head(ModelSpec& model, const EncoderShape& shape) {
  std::uint64_t h = shape.hidden;
  add_dense(model, "cls.predictions.transform.dense", Part::lm_head, {{}, h, h, true},
            Rows::tokens);
  LayerKind layer;
  add_output_norm(layer, "cls.predictions.transform.LayerNorm", h);
  Component decoder{
      .name = "cls.predictions.decoder", .part = Part::lm_head, .reads = wire::stream};
  decoder.work = Projection{.in = h, .out = shape.vocab, .stored = false};
  layer.components.push_back(decoder);
  add_weights(layer, "cls.predictions.bias", Part::lm_head, shape.vocab, wire::inner);
  model.stages.push_back(single_stage("", Stream::text, std::move(layer)));
  model.tied = true;
}

void add_task_head(const Fields& config, ModelSpec& model, const EncoderShape& shape,
                   HeadKind kind) {
  std::uint64_t h = shape.hidden;
  bool of_sequence = kind == HeadKind::sequence;
  std::uint64_t labels = kind == HeadKind::question ? 2 : labels_of(config);
  add_dense(model, kind == HeadKind::question ? "qa_outputs" : "classifier", Part::head,
            {{}, h, labels, true}, of_sequence ? Rows::sequences : Rows::tokens);
}

EncoderShape read_bert(const Fields& config, std::uint64_t vocab) {
  EncoderShape shape;
  shape.hidden = config.size({"hidden_size"}, 768);
  shape.layers = config.layers({"num_hidden_layers"}, 12);
  shape.heads = config.size({"num_attention_heads"}, 12);
  config.head_width(shape.hidden, shape.heads);
  shape.ffn = config.size({"intermediate_size"}, 3072);
  shape.vocab = config.size({"vocab_size"}, vocab);
  shape.positions = config.size({"max_position_embeddings"}, 512);
  shape.types = config.count({"type_vocab_size"}, 2);
  return shape;
}

void build_bert(const Fields& config, ModelSpec& model) {
  EncoderShape shape = read_bert(config, 30522);
  shape.prefix = "bert.";
  add_encoder(shape, model);
  HeadKind kind = head_of(model);
  bool masked = is_masked_language_model(model);
  bool pooled = kind == HeadKind::none || kind == HeadKind::sequence ||
                model.architecture.ends_with("ForPreTraining");
  if (kind == HeadKind::language && !masked) pooled = true;
  if (pooled) {
    add_dense(model, "bert.pooler.dense", Part::head, {{}, shape.hidden, shape.hidden, true},
              Rows::sequences);
  }
  if (masked) add_masked_head(model, shape);
  if (kind != HeadKind::none && kind != HeadKind::language) {
    add_task_head(config, model, shape, kind);
  }
}

void build_roberta(const Fields& config, ModelSpec& model) {
  EncoderShape shape = read_bert(config, model.type == "roberta" ? 50265 : 30522);
  shape.prefix = "roberta.";
  add_encoder(shape, model);
  HeadKind kind = head_of(model);
  std::uint64_t h = shape.hidden;
  if (kind == HeadKind::none) {
    add_dense(model, "roberta.pooler.dense", Part::head, {{}, h, h, true}, Rows::sequences);
  } else if (kind == HeadKind::language) {
    add_masked_head(model, shape);
  } else {
    if (kind == HeadKind::sequence) {
      add_dense(model, "classifier.dense", Part::head, {{}, h, h, true}, Rows::sequences);
    }
    add_task_head(config, model, shape, kind);
  }
}

void build_distilbert(const Fields& config, ModelSpec& model) {
  EncoderShape shape;
  shape.prefix = "distilbert.";
  shape.hidden = config.size({"dim", "hidden_size"}, 768);
  shape.layers = config.layers({"n_layers", "num_hidden_layers"}, 6);
  shape.heads = config.size({"n_heads", "num_attention_heads"}, 12);
  config.head_width(shape.hidden, shape.heads);
  shape.ffn = config.size({"hidden_dim"}, 3072);
  shape.vocab = config.size({"vocab_size"}, 30522);
  shape.positions = config.size({"max_position_embeddings"}, 512);
  add_encoder(shape, model);
  HeadKind kind = head_of(model);
  std::uint64_t h = shape.hidden;
  if (kind == HeadKind::language) add_masked_head(model, shape);
  if (kind == HeadKind::sequence) {
    add_dense(model, "pre_classifier", Part::head, {{}, h, h, true}, Rows::sequences);
  }
  if (kind != HeadKind::none && kind != HeadKind::language) {
    add_task_head(config, model, shape, kind);
  }
}

// ModernBERT (arXiv 2412.13663): two of three layers have windows of local_attention tokens.
void build_modernbert(const Fields& config, ModelSpec& model) {
  Decoder decoder;
  decoder.embedding = "embeddings.tok_embeddings";
  decoder.attention_prefix = "attn.";
  decoder.hidden = config.size({"hidden_size"}, 768);
  decoder.layers = config.layers({"num_hidden_layers"}, 22);
  decoder.vocab = config.size({"vocab_size"}, 50368);
  decoder.norm = config.flag({"norm_bias"}, false) ? NormKind::layer : NormKind::rms;
  std::uint64_t h = decoder.hidden;
  AttentionBlock attention{.hidden = h, .fused = "Wqkv"};
  attention.o = "Wo";
  attention.heads = attention.kv_heads = config.size({"num_attention_heads"}, 12);
  attention.head_dim = config.head_width(h, attention.heads);
  read_biases(config, "attention_bias", false, attention);
  MlpBlock mlp{.hidden = h, .width = config.size({"intermediate_size"}, 1152)};
  mlp.bias = config.flag({"mlp_bias"}, false);
  mlp.fused = "Wi";
  mlp.down = "Wo";
  std::uint64_t every = config.size({"global_attn_every_n_layers"}, 3);
  Mask local{MaskKind::local, config.count({"local_attention"}, 128) / 2};
  std::vector<std::string> types = config.texts({"layer_types"});
  std::vector<LayerKind> kinds;
  for (std::uint32_t kind = 0; kind < 4; ++kind) {  // bit 0: local; bit 1: not the first layer
    LayerKind layer;
    attention.mask = kind & 1 ? local : Mask{MaskKind::bidirectional, 0};
    if (kind & 2) add_norm(layer, "attn_norm", decoder.norm, h);
    std::uint8_t reads = kind & 2 ? wire::normed : wire::stream;
    add_attention(layer, attention, {.prefix = "attn.", .reads = reads});
    add_norm(layer, "mlp_norm", decoder.norm, h);
    add_mlp(layer, mlp, {.prefix = "mlp."});
    kinds.push_back(std::move(layer));
  }
  std::vector<std::uint32_t> order;
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    bool slides = i < types.size() ? types[i] != "full_attention" : i % every != 0;
    order.push_back((slides ? 1u : 0u) + (i != 0 ? 2u : 0u));
  }
  model.encoder_only = true;
  std::string architecture = model.architecture;
  model.architecture = "Model";
  decoder.mlp.width = mlp.width;
  add_decoder_frame(config, decoder,
                    layer_stage("model.layers.", Stream::text, std::move(kinds), order), model);
  model.architecture = architecture;
  std::uint64_t norm = decoder.norm == NormKind::layer ? 2 * h : h;
  add_weights(model.stages[0].kinds[0], "embeddings.norm", Part::norm, norm, wire::stream);
  HeadKind kind = head_of(model);
  if (kind == HeadKind::none) return;
  // Every task has a prediction head (dense, norm) before its last matrix.
  bool language = kind == HeadKind::language;
  Rows rows = kind == HeadKind::sequence ? Rows::sequences : Rows::tokens;
  add_dense(model, "head.dense", language ? Part::lm_head : Part::head,
            {{}, h, h, config.flag({"classifier_bias"}, false)}, rows);
  LayerKind last;
  add_weights(last, "head.norm", Part::norm, norm, wire::stream);
  Component final_matrix{.name = language ? "decoder" : "classifier",
                         .part = language ? Part::lm_head : Part::head,
                         .reads = wire::stream};
  bool tied = language && config.flag({"tie_word_embeddings"}, true);
  std::uint64_t out = language ? decoder.vocab : kind == HeadKind::question ? 2 : labels_of(config);
  bool out_bias = language ? config.flag({"decoder_bias"}, true) : true;
  final_matrix.work =
      Projection{.in = h, .out = out, .bias = out_bias && !tied, .stored = !tied, .rows = rows};
  last.components.push_back(final_matrix);
  if (tied && out_bias) add_weights(last, "decoder.bias", Part::lm_head, out, wire::inner);
  model.tied = tied;
  model.stages.push_back(single_stage("", Stream::text, std::move(last)));
}

}  // namespace

std::span<const Family> bert_families() {
  static constexpr Family kFamilies[] = {{"bert", build_bert},
                                         {"roberta", build_roberta},
                                         {"camembert", build_roberta},
                                         {"xlm-roberta", build_roberta},
                                         {"distilbert", build_distilbert},
                                         {"modernbert", build_modernbert}};
  return kFamilies;
}

}  // namespace mfu
