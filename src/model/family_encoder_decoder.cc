// T5 and Whisper: an encoder, and a decoder that attends to its output in every layer.
#include "model/families.h"

namespace mfu {
namespace {

struct T5Shape {
  std::uint64_t hidden = 0, heads = 0, head_dim = 0, ffn = 0, buckets = 0;
  bool gated = false;
};

// Relative position biases are learned in the first layer of each stack. The other layers share
// them.
LayerKind t5_layer(const T5Shape& shape, bool decoder, bool first, Rows rows) {
  LayerKind layer;
  std::string feed = decoder ? "layer.2." : "layer.1.";
  add_norm(layer, "layer.0.layer_norm", NormKind::rms, shape.hidden);
  AttentionBlock attention{.hidden = shape.hidden,
                           .heads = shape.heads,
                           .kv_heads = shape.heads,
                           .head_dim = shape.head_dim,
                           .mask = {decoder ? MaskKind::causal : MaskKind::bidirectional, 0},
                           .q = "q",
                           .k = "k",
                           .v = "v",
                           .o = "o"};
  add_attention(layer, attention, {.prefix = "layer.0.SelfAttention.", .rows = rows});
  if (first) {
    add_weights(layer, "layer.0.SelfAttention.relative_attention_bias", Part::attention_projections,
                shape.buckets * shape.heads, wire::inner);
  }
  if (decoder) {
    add_norm(layer, "layer.1.layer_norm", NormKind::rms, shape.hidden);
    CrossAttentionBlock cross{.hidden = shape.hidden,
                              .inner = shape.heads * shape.head_dim,
                              .heads = shape.heads,
                              .q = "q",
                              .k = "k",
                              .v = "v",
                              .o = "o"};
    add_cross_attention(layer, cross, {.prefix = "layer.1.EncDecAttention."});
  }
  add_norm(layer, feed + "layer_norm", NormKind::rms, shape.hidden);
  add_mlp(layer,
          {.hidden = shape.hidden,
           .width = shape.ffn,
           .gated = shape.gated,
           .gate = "wi_0",
           .up = shape.gated ? "wi_1" : "wi",
           .down = "wo"},
          {.prefix = feed + "DenseReluDense.", .rows = rows});
  return layer;
}

void add_t5_stack(ModelSpec& model, const T5Shape& shape, bool decoder, Stream stream,
                  std::uint64_t layers) {
  Rows rows = stream == Stream::encoder ? Rows::encoder : Rows::tokens;
  std::string prefix = decoder ? "decoder." : "encoder.";
  std::vector<std::uint32_t> order(layers, 1);
  if (!order.empty()) order[0] = 0;
  model.stages.push_back(layer_stage(
      prefix + "block.", stream,
      {t5_layer(shape, decoder, true, rows), t5_layer(shape, decoder, false, rows)}, order));
  LayerKind norm;
  add_norm(norm, "final_layer_norm", NormKind::rms, shape.hidden);
  model.stages.push_back(single_stage(prefix, stream, std::move(norm)));
}

void build_t5(const Fields& config, ModelSpec& model) {
  bool mt5 = model.type == "mt5";
  T5Shape shape;
  shape.hidden = config.size({"d_model", "hidden_size"}, 512);
  shape.heads = config.size({"num_heads", "num_attention_heads"}, mt5 ? 6 : 8);
  shape.head_dim = config.size({"d_kv"}, 64);
  shape.ffn = config.size({"d_ff"}, mt5 ? 1024 : 2048);
  shape.buckets = config.size({"relative_attention_num_buckets"}, 32);
  shape.gated =
      config.text({"feed_forward_proj"}, mt5 ? "gated-gelu" : "relu").starts_with("gated");
  std::uint64_t layers = config.layers({"num_layers", "num_hidden_layers"}, mt5 ? 8 : 6);
  std::uint64_t decoder_layers = config.layers({"num_decoder_layers"}, layers);
  model.hidden = shape.hidden;
  model.vocab = config.size({"vocab_size"}, mt5 ? 250112 : 32128);
  model.ffn = shape.ffn;
  bool encoder_only = model.architecture.ends_with("EncoderModel");
  LayerKind table;
  add_weights(table, "shared", Part::embedding, model.vocab * shape.hidden, wire::stream);
  // Both stacks use one table. For gradients, the encoder comes first.
  model.stages.push_back(
      single_stage("", encoder_only ? Stream::text : Stream::encoder, std::move(table)));
  if (encoder_only) {
    model.encoder_only = true;
    add_t5_stack(model, shape, false, Stream::text, layers);
    return;
  }
  add_t5_stack(model, shape, false, Stream::encoder, layers);
  LayerKind again;
  add_weights(again, "shared", Part::embedding, 1, wire::stream);
  again.components[0].work = Weights{0};
  model.stages.push_back(single_stage("", Stream::text, std::move(again)));
  add_t5_stack(model, shape, true, Stream::text, decoder_layers);
  if (head_of(model) == HeadKind::none) return;
  model.tied = config.flag({"tie_word_embeddings"}, true);
  model.stages.push_back(
      head_stage({.hidden = shape.hidden, .out = model.vocab, .tied = model.tied}));
  if (!model.tied) {
    model.notes.push_back({"head_counted_apart", {}});
  }
}

struct WhisperShape {
  std::uint64_t hidden = 0;
  std::uint64_t heads = 0, ffn = 0;
};

LayerKind whisper_layer(const WhisperShape& shape, bool decoder) {
  LayerKind layer;
  Rows rows = decoder ? Rows::tokens : Rows::encoder;
  AttentionBlock attention{.hidden = shape.hidden,
                           .heads = shape.heads,
                           .kv_heads = shape.heads,
                           .head_dim = std::max<std::uint64_t>(shape.hidden / shape.heads, 1),
                           .mask = {decoder ? MaskKind::causal : MaskKind::bidirectional, 0},
                           .q_bias = true,
                           .v_bias = true,
                           .o_bias = true,
                           .o = "out_proj"};
  add_norm(layer, "self_attn_layer_norm", NormKind::layer, shape.hidden);
  add_attention(layer, attention, {.prefix = "self_attn.", .rows = rows});
  if (decoder) {
    add_norm(layer, "encoder_attn_layer_norm", NormKind::layer, shape.hidden);
    add_cross_attention(layer,
                        {.hidden = shape.hidden,
                         .inner = attention.heads * attention.head_dim,
                         .heads = shape.heads,
                         .q_bias = true,
                         .v_bias = true,
                         .o_bias = true,
                         .o = "out_proj"},
                        {.prefix = "encoder_attn."});
  }
  add_norm(layer, "final_layer_norm", NormKind::layer, shape.hidden);
  add_mlp(layer,
          {.hidden = shape.hidden,
           .width = shape.ffn,
           .gated = false,
           .bias = true,
           .up = "fc1",
           .down = "fc2"},
          {.rows = rows});
  return layer;
}

// Two convolutions of width 3 over the spectrogram. The second one halves its length. A spectrogram
// needs no gradient.
void add_whisper_inputs(ModelSpec& model, std::uint64_t mels, std::uint64_t hidden,
                        std::uint64_t positions) {
  LayerKind layer;
  add_linear(layer, Part::audio, {"conv1", 3 * mels, hidden, true, 0, wire::stream},
             {.rows = Rows::frames});
  add_linear(layer, Part::audio, {"conv2", 3 * hidden, hidden, true, wire::stream, wire::stream},
             {.rows = Rows::encoder});
  add_weights(layer, "embed_positions", Part::position_embedding, positions * hidden);
  layer.components.back().without_gradient = true;
  model.stages.push_back(single_stage("model.encoder.", Stream::encoder, std::move(layer)));
}

void add_last_norm(ModelSpec& model, std::string prefix, Stream stream, std::uint64_t hidden) {
  LayerKind norm;
  add_norm(norm, "layer_norm", NormKind::layer, hidden);
  model.stages.push_back(single_stage(std::move(prefix), stream, std::move(norm)));
}

void build_whisper(const Fields& config, ModelSpec& model) {
  WhisperShape encoder, decoder;
  model.hidden = encoder.hidden = decoder.hidden = config.size({"d_model", "hidden_size"}, 384);
  encoder.heads = config.size({"encoder_attention_heads", "num_attention_heads"}, 6);
  decoder.heads = config.size({"decoder_attention_heads"}, 6);
  config.head_width(model.hidden, encoder.heads);
  config.head_width(model.hidden, decoder.heads);
  encoder.ffn = config.size({"encoder_ffn_dim"}, 1536);
  decoder.ffn = config.size({"decoder_ffn_dim"}, 1536);
  model.ffn = decoder.ffn;
  model.vocab = config.size({"vocab_size"}, 51865);
  model.encoder_sequence = config.size({"max_source_positions"}, 1500);
  model.frames_per_encoder_token = 2;
  add_whisper_inputs(model, config.size({"num_mel_bins"}, 80), model.hidden,
                     model.encoder_sequence);
  model.stages.push_back(uniform_stage("model.encoder.layers.", Stream::encoder,
                                       whisper_layer(encoder, false),
                                       config.layers({"encoder_layers"}, 4)));
  add_last_norm(model, "model.encoder.", Stream::encoder, model.hidden);
  model.stages.push_back(embedding_stage("model.decoder.", "embed_tokens", model.vocab,
                                         model.hidden, config.size({"max_target_positions"}, 448)));
  model.stages.push_back(uniform_stage("model.decoder.layers.", Stream::text,
                                       whisper_layer(decoder, true),
                                       config.layers({"decoder_layers"}, 4)));
  add_last_norm(model, "model.decoder.", Stream::text, model.hidden);
  if (head_of(model) == HeadKind::none) return;
  model.tied = config.flag({"tie_word_embeddings"}, true);
  model.stages.push_back(
      head_stage({.hidden = model.hidden, .out = model.vocab, .tied = model.tied}));
}

}  // namespace

std::span<const Family> encoder_decoder_families() {
  static constexpr Family kFamilies[] = {
      {"t5", build_t5}, {"mt5", build_t5}, {"whisper", build_whisper}};
  return kFamilies;
}

}  // namespace mfu
