// GPT and its contemporaries: learned positions, layer norms, plain MLPs.
#include <algorithm>

#include "model/families.h"

namespace mfu {
namespace {

// What these families share. Their fields have different names.
struct Shape {
  std::uint64_t hidden = 0, layers = 0, heads = 0, ffn = 0, vocab = 0, positions = 0;
  bool tied = true;
};

Decoder plain_decoder(const Shape& shape) {
  Decoder decoder;
  decoder.prefix = "transformer.";
  decoder.layers_name = "h.";
  decoder.embedding = "wte";
  decoder.attention_prefix = "attn.";
  decoder.vocab = shape.vocab;
  decoder.hidden = shape.hidden;
  decoder.layers = shape.layers;
  decoder.positions = shape.positions;
  decoder.tied = shape.tied;
  decoder.norm = NormKind::layer;
  decoder.attention.hidden = shape.hidden;
  decoder.attention.heads = decoder.attention.kv_heads = shape.heads;
  decoder.attention.head_dim = std::max<std::uint64_t>(shape.hidden / shape.heads, 1);
  decoder.mlp = {.hidden = shape.hidden, .width = shape.ffn, .gated = false, .bias = true};
  decoder.masks.assign(shape.layers, Mask{});
  return decoder;
}

// The names of these fields in a family's config. The family's own name comes first.
struct Called {
  Fields::Names hidden, layers, heads;
  Fields::Names ffn{};  // if empty, or not given without a default: four times the width
  Fields::Names positions{};
};

Shape read_shape(const Fields& config, const Called& called, const Shape& defaults) {
  Shape shape;
  shape.hidden = config.size(called.hidden, defaults.hidden);
  shape.layers = config.layers(called.layers, defaults.layers);
  shape.heads = config.size(called.heads, defaults.heads);
  config.head_width(shape.hidden, shape.heads);
  shape.ffn = defaults.ffn != 0 ? defaults.ffn : 4 * shape.hidden;
  if (called.ffn.size() != 0) shape.ffn = config.size(called.ffn, shape.ffn);
  shape.vocab = config.size({"vocab_size"}, defaults.vocab);
  if (called.positions.size() != 0) {
    shape.positions = config.count(called.positions, defaults.positions);
  }
  shape.tied = config.flag({"tie_word_embeddings"}, defaults.tied);
  return shape;
}

Shape read_gpt2_shape(const Fields& config, const Shape& defaults) {
  return read_shape(config,
                    {{"n_embd", "hidden_size"},
                     {"n_layer", "num_hidden_layers"},
                     {"n_head", "num_attention_heads"},
                     {"n_inner"},
                     {"n_positions", "max_position_embeddings"}},
                    defaults);
}

constexpr Shape kGpt2{768, 12, 12, 0, 50257, 1024, true};
constexpr Shape kGptJ{4096, 28, 16, 0, 50400, 2048, false};

template <bool kBigCode>
void build_gpt2(const Fields& config, ModelSpec& model) {
  Decoder decoder = plain_decoder(read_gpt2_shape(config, kGpt2));
  if (kBigCode && config.flag({"multi_query"}, true)) decoder.attention.kv_heads = 1;
  decoder.attention.fused = "c_attn";
  decoder.attention.o = "c_proj";
  decoder.mlp.up = "c_fc";
  decoder.mlp.down = "c_proj";
  set_biases(decoder.attention, true, true);
  build_decoder(config, decoder, model);
}

template <bool kFused>
void build_gptj(const Fields& config, ModelSpec& model) {
  Shape shape = read_gpt2_shape(config, kGptJ);
  shape.positions = 0;
  Decoder decoder = plain_decoder(shape);
  decoder.plan = NormPlan::parallel;
  if (kFused) decoder.attention.fused = "qkv_proj";
  decoder.attention.o = "out_proj";
  decoder.mlp.up = "fc_in";
  decoder.mlp.down = "fc_out";
  decoder.head_bias = true;
  build_decoder(config, decoder, model);
}

void build_gpt_neo(const Fields& config, ModelSpec& model) {
  Shape shape = read_shape(config,
                           {{"hidden_size"},
                            {"num_layers", "num_hidden_layers"},
                            {"num_heads", "num_attention_heads"},
                            {"intermediate_size"},
                            {"max_position_embeddings"}},
                           {2048, 24, 16, 0, 50257, 2048, true});
  Decoder decoder = plain_decoder(shape);
  decoder.attention.o_bias = true;
  decoder.attention.cuts_cache = false;
  decoder.attention.o = "out_proj";
  decoder.mlp.up = "c_fc";
  decoder.mlp.down = "c_proj";
  // attention_types is the short form of attention_layers. By default every other layer is local.
  std::vector<std::string> kinds = config.texts({"attention_layers"});
  Mask local{MaskKind::window, config.size({"window_size"}, 256)};
  for (std::uint64_t i = 0; i < shape.layers; ++i) {
    bool slides = i < kinds.size() ? kinds[i] == "local" : i % 2 == 1;
    if (slides) decoder.masks[i] = local;
  }
  build_decoder(config, decoder, model);
}

void build_gpt_neox(const Fields& config, ModelSpec& model) {
  Shape shape = read_shape(
      config,
      {{"hidden_size"}, {"num_hidden_layers"}, {"num_attention_heads"}, {"intermediate_size"}},
      {6144, 44, 64, 24576, 50432, 0, false});
  Decoder decoder = plain_decoder(shape);
  decoder.prefix = "gpt_neox.";
  decoder.layers_name = "layers.";
  decoder.embedding = "embed_in";
  decoder.attention_prefix = "attention.";
  decoder.attention.fused = "query_key_value";
  decoder.attention.o = "dense";
  decoder.mlp.up = "dense_h_to_4h";
  decoder.mlp.down = "dense_4h_to_h";
  read_biases(config, "attention_bias", true, decoder.attention);
  if (config.flag({"use_parallel_residual"}, true)) decoder.plan = NormPlan::parallel_two;
  build_decoder(config, decoder, model);
}

void build_opt(const Fields& config, ModelSpec& model) {
  Shape shape = read_shape(
      config, {{"hidden_size"}, {"num_hidden_layers"}, {"num_attention_heads"}, {"ffn_dim"}},
      {768, 12, 12, 3072, 50272, 0, true});
  Decoder decoder = plain_decoder(shape);
  decoder.prefix = "model.decoder.";
  decoder.layers_name = "layers.";
  decoder.embedding = "embed_tokens";
  decoder.attention_prefix = "self_attn.";
  decoder.attention.o = "out_proj";
  decoder.mlp_prefix = "";
  decoder.mlp.up = "fc1";
  decoder.mlp.down = "fc2";
  bool bias = read_biases(config, "enable_bias", true, decoder.attention);
  decoder.mlp.bias = bias;
  if (!config.flag({"layer_norm_elementwise_affine"}, true)) decoder.norm = NormKind::none;
  build_decoder(config, decoder, model);
  // The table may be narrower than the stream. Then there is a matrix from the one width to the
  // other, and one back.
  std::uint64_t width = config.size({"word_embed_proj_dim"}, shape.hidden);
  std::uint64_t positions = config.count({"max_position_embeddings"}, 2048) + 2;
  LayerKind embedding;
  add_weights(embedding, "embed_tokens", Part::embedding, shape.vocab * width, wire::stream);
  if (width != shape.hidden) {
    add_linear(embedding, Part::mlp,
               {"project_in", width, shape.hidden, false, wire::stream, wire::stream});
  }
  add_weights(embedding, "embed_positions", Part::position_embedding, positions * shape.hidden,
              wire::stream);
  model.stages[0] = single_stage(decoder.prefix, Stream::text, std::move(embedding));
  Stage& last_norm = model.stages[2];
  // If norms come after the blocks (OPT-350m), there is none at the end.
  bool final_norm = config.flag({"do_layer_norm_before"}, true) &&
                    !config.flag({"_remove_final_layer_norm"}, false);
  if (!final_norm) last_norm.kinds[0].components[0].work = Weights{0};
  if (width != shape.hidden) {
    add_linear(last_norm.kinds[0], Part::mlp,
               {"project_out", shape.hidden, width, false, wire::normed, wire::normed});
    if (head_of(model) == HeadKind::language) {
      model.stages[3] = head_stage({.hidden = width, .out = shape.vocab, .tied = shape.tied});
    }
  }
}

void build_bloom(const Fields& config, ModelSpec& model) {
  Shape shape = read_shape(config,
                           {{"n_embed", "hidden_size"},
                            {"n_layer", "num_hidden_layers"},
                            {"n_head", "num_attention_heads"}},
                           {64, 2, 8, 0, 250880, 0, true});
  Decoder decoder = plain_decoder(shape);
  decoder.embedding = "word_embeddings";
  decoder.attention_prefix = "self_attention.";
  decoder.attention.fused = "query_key_value";
  decoder.attention.o = "dense";
  decoder.mlp.up = "dense_h_to_4h";
  decoder.mlp.down = "dense_4h_to_h";
  set_biases(decoder.attention, true, true);
  build_decoder(config, decoder, model);
  add_weights(model.stages[0].kinds[0], "word_embeddings_layernorm", Part::norm, 2 * shape.hidden,
              wire::stream);
}

// HF's class has no biases, norms without a bias, and positions by ALiBi, whatever learned_pos_emb
// says.
void build_mpt(const Fields& config, ModelSpec& model) {
  Shape shape = read_shape(config,  // expansion_ratio is ignored: the MLP is four times as wide
                           {{"d_model", "hidden_size"},
                            {"n_layers", "num_hidden_layers"},
                            {"n_heads", "num_attention_heads"}},
                           {2048, 24, 16, 0, 50368, 0, true});
  Decoder decoder = plain_decoder(shape);
  decoder.layers_name = "blocks.";
  decoder.attention.fused = "Wqkv";
  decoder.attention.o = "out_proj";
  decoder.mlp_prefix = "ffn.";
  decoder.mlp.bias = false;
  decoder.norm = NormKind::rms;
  build_decoder(config, decoder, model);
}

void build_falcon(const Fields& config, ModelSpec& model) {
  Shape shape = read_shape(config,
                           {{"hidden_size"},
                            {"num_hidden_layers", "n_layer"},
                            {"num_attention_heads", "n_head"},
                            {"ffn_hidden_size"}},
                           {4544, 32, 71, 0, 65024, 0, true});
  Decoder decoder = plain_decoder(shape);
  decoder.embedding = "word_embeddings";
  decoder.attention_prefix = "self_attention.";
  decoder.attention.fused = "query_key_value";
  decoder.attention.o = "dense";
  decoder.mlp.up = "dense_h_to_4h";
  decoder.mlp.down = "dense_4h_to_h";
  bool bias = read_biases(config, "bias", false, decoder.attention);
  decoder.mlp.bias = bias;
  // The RefinedWeb configs of the 40B have n_head_kv and mean the new architecture.
  bool is_new = config.flag({"new_decoder_architecture"}, config.has("n_head_kv"));
  bool parallel = config.flag({"parallel_attn"}, true);
  decoder.plan = parallel ? NormPlan::parallel : NormPlan::pre;
  if (is_new) {
    decoder.attention.kv_heads = config.size({"num_kv_heads", "n_head_kv"}, shape.heads);
    bool two = config.count({"num_ln_in_parallel_attn"}, 2) == 2;
    if (two) decoder.plan = NormPlan::parallel_two;
  } else if (config.flag({"multi_query"}, true)) {
    decoder.attention.kv_heads = 1;
  }
  build_decoder(config, decoder, model);
}

}  // namespace

std::span<const Family> gpt_families() {
  static constexpr Family kFamilies[] = {
      {"gpt2", build_gpt2<false>},  {"gpt_bigcode", build_gpt2<true>},
      {"gptj", build_gptj<false>},  {"codegen", build_gptj<true>},
      {"gpt_neo", build_gpt_neo},   {"gpt_neox", build_gpt_neox},
      {"opt", build_opt},           {"bloom", build_bloom},
      {"mpt", build_mpt},           {"falcon", build_falcon},
      {"RefinedWeb", build_falcon}, {"RefinedWebModel", build_falcon},
  };
  return kFamilies;
}

}  // namespace mfu
