#include "model/decoder.h"

#include <algorithm>

namespace mfu {
namespace {

// A norm on the output of a block, before it is added to the stream.
void add_output_norm(LayerKind& layer, std::string_view name, const Decoder& decoder) {
  std::uint64_t vectors = decoder.norm == NormKind::layer ? 2 : 1;
  if (decoder.norm == NormKind::none) vectors = 0;
  add_weights(layer, name, Part::norm, vectors * decoder.hidden, wire::stream);
}

}  // namespace

Decoder read_decoder(const Fields& config, const DecoderDefaults& defaults) {
  Decoder decoder;
  decoder.hidden = config.size({"hidden_size"}, defaults.hidden);
  decoder.layers = config.layers({"num_hidden_layers"}, defaults.layers);
  decoder.vocab = config.size({"vocab_size"}, defaults.vocab);
  decoder.tied = config.flag({"tie_word_embeddings"}, defaults.tied);
  AttentionBlock& attention = decoder.attention;
  attention.hidden = decoder.hidden;
  attention.heads = config.size({"num_attention_heads"}, defaults.heads);
  // The class's default is used only if the field is absent. null means as many as heads.
  bool own = defaults.kv_heads != 0 && !config.is_null("num_key_value_heads");
  std::uint64_t kv_default = own ? defaults.kv_heads : attention.heads;
  attention.kv_heads = config.size({"num_key_value_heads"}, kv_default);
  bool given = config.has("head_dim") || defaults.head_dim != 0;
  std::uint64_t dim =
      given ? defaults.head_dim : config.head_width(decoder.hidden, attention.heads);
  attention.head_dim = config.size({"head_dim"}, std::max<std::uint64_t>(dim, 1));
  decoder.mlp.hidden = decoder.hidden;
  decoder.mlp.width = config.size({"intermediate_size"}, defaults.ffn);
  decoder.masks.assign(decoder.layers, Mask{});
  return decoder;
}

std::vector<Mask> read_masks(const Fields& config, std::uint64_t layers, Mask sliding,
                             const std::function<bool(std::uint64_t)>& sliding_by_default) {
  std::vector<Mask> masks(layers);
  if (sliding.size == 0) return masks;
  std::vector<std::string> types = config.texts({"layer_types"});
  if (!types.empty() && types.size() < layers) {
    config.complain("layer_types", "fewer than num_hidden_layers");
    return masks;
  }
  for (std::uint64_t i = 0; i < layers; ++i) {
    bool slides = types.empty() ? sliding_by_default(i) : types[i] != "full_attention";
    if (slides) masks[i] = sliding;
  }
  return masks;
}

Mask window_of(const Fields& config, std::uint64_t fallback) {
  if (config.is_null("sliding_window")) return {};
  std::uint64_t window = config.count({"sliding_window"}, fallback);
  return window == 0 ? Mask{} : Mask{MaskKind::window, window};
}

bool read_biases(const Fields& config, std::string_view field, bool fallback,
                 AttentionBlock& attention) {
  bool bias = config.flag({field}, fallback);
  set_biases(attention, bias, bias);
  return bias;
}

void per_head_norms(Decoder& decoder) {
  decoder.attention.q_norm = decoder.attention.k_norm = decoder.attention.head_dim;
}

void full_norms(Decoder& decoder) {
  decoder.attention.q_norm = decoder.attention.heads * decoder.attention.head_dim;
  decoder.attention.k_norm = decoder.attention.kv_heads * decoder.attention.head_dim;
}

void add_decoder_attention(LayerKind& layer, const Decoder& decoder, const Mask& mask) {
  AttentionBlock attention = decoder.attention;
  attention.mask = mask;
  Place place{.prefix = decoder.attention_prefix};
  if (decoder.plan == NormPlan::post) {
    place.reads = wire::stream;
  } else {
    add_norm(layer, "input_layernorm", decoder.norm, decoder.hidden);
  }
  add_attention(layer, attention, place);
  if (decoder.plan == NormPlan::post || decoder.plan == NormPlan::sandwich) {
    add_output_norm(layer, "post_attention_layernorm", decoder);
  }
}

void add_decoder_mlp(LayerKind& layer, const Decoder& decoder, bool moe) {
  Place place{.prefix = decoder.mlp_prefix};
  switch (decoder.plan) {
    case NormPlan::pre:
    case NormPlan::parallel_two:
      add_norm(layer, "post_attention_layernorm", decoder.norm, decoder.hidden);
      break;
    case NormPlan::sandwich:
      add_norm(layer, "pre_feedforward_layernorm", decoder.norm, decoder.hidden);
      break;
    case NormPlan::post:
      place.reads = wire::stream;
      break;
    case NormPlan::parallel:
      break;
  }
  if (moe) {
    add_experts(layer, decoder.experts, place);
  } else {
    add_mlp(layer, decoder.mlp, place);
    add_weights(layer, place.prefix + "act_fn", Part::mlp, decoder.mlp_extra, wire::inner);
  }
  if (decoder.plan == NormPlan::post || decoder.plan == NormPlan::sandwich) {
    add_output_norm(layer, "post_feedforward_layernorm", decoder);
  }
}

HeadKind head_of(const ModelSpec& model) {
  const std::string& name = model.architecture;
  if (name.ends_with("ForSequenceClassification")) return HeadKind::sequence;
  if (name.ends_with("ForTokenClassification")) return HeadKind::token;
  if (name.ends_with("ForQuestionAnswering")) return HeadKind::question;
  if (name.ends_with("Model") && !name.ends_with("LMHeadModel")) return HeadKind::none;
  return HeadKind::language;
}

std::uint64_t labels_of(const Fields& config) {
  std::size_t named = config.members("id2label");
  return config.size({"num_labels"}, named != 0 ? named : 2);
}

void add_decoder_frame(const Fields& config, const Decoder& decoder, Stage layers,
                       ModelSpec& model) {
  model.hidden = decoder.hidden;
  model.vocab = decoder.vocab;
  model.ffn = decoder.mlp.width;
  model.stages.push_back(embedding_stage(decoder.prefix, decoder.embedding, decoder.vocab,
                                         decoder.hidden, decoder.positions));
  model.stages.push_back(std::move(layers));
  LayerKind norm;
  add_norm(norm, "norm", decoder.norm, decoder.hidden);
  model.stages.push_back(single_stage(decoder.prefix, Stream::text, std::move(norm)));
  std::uint64_t h = decoder.hidden;
  switch (head_of(model)) {
    case HeadKind::language:
      model.tied = decoder.tied;
      model.stages.push_back(head_stage(
          {.hidden = h, .out = decoder.vocab, .bias = decoder.head_bias, .tied = decoder.tied}));
      break;
    case HeadKind::sequence:
      model.stages.push_back(head_stage(
          {.hidden = h, .out = labels_of(config), .name = "score", .rows = Rows::tokens}));
      break;
    case HeadKind::token:
      model.stages.push_back(head_stage({.hidden = h,
                                         .out = labels_of(config),
                                         .bias = true,
                                         .name = "score",
                                         .rows = Rows::tokens}));
      break;
    case HeadKind::question:
      model.stages.push_back(head_stage(
          {.hidden = h, .out = 2, .bias = true, .name = "qa_outputs", .rows = Rows::tokens}));
      break;
    case HeadKind::none:
      break;
  }
}

void build_decoder(const Fields& config, const Decoder& decoder, ModelSpec& model) {
  struct Style {
    Mask mask;
    bool moe = false;
    bool operator==(const Style&) const = default;
  };
  std::vector<Style> styles;
  std::vector<LayerKind> kinds;
  std::vector<std::uint32_t> order;
  for (std::uint64_t i = 0; i < decoder.layers; ++i) {
    Style style{decoder.masks[i], !decoder.is_moe.empty() && decoder.is_moe[i]};
    auto at = std::find(styles.begin(), styles.end(), style);
    if (at == styles.end()) {
      LayerKind kind;
      add_decoder_attention(kind, decoder, style.mask);
      add_decoder_mlp(kind, decoder, style.moe);
      kinds.push_back(std::move(kind));
      styles.push_back(style);
      at = styles.end() - 1;
    }
    order.push_back(static_cast<std::uint32_t>(at - styles.begin()));
  }
  Stage layers =
      layer_stage(decoder.prefix + decoder.layers_name, Stream::text, std::move(kinds), order);
  add_decoder_frame(config, decoder, std::move(layers), model);
}

}  // namespace mfu
