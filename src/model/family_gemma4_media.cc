// Gemma 4 as a whole: a tower over patches, whose averages are the image tokens; a conformer for
// sound; and the decoder of family_gemma4.cc.
#include "model/families.h"
#include "model/tower.h"

namespace mfu {
namespace {

LayerKind picture_layer(const Fields& vision, std::uint64_t hidden) {
  LayerKind layer;
  Place place{.prefix = "self_attn.", .rows = Rows::tower, .part = Part::vision};
  Place stream{.rows = Rows::tower, .reads = wire::stream, .part = Part::vision};
  AttentionBlock attention{.hidden = hidden,
                           .heads = vision.size({"num_attention_heads"}, 12),
                           .kv_heads = vision.size({"num_key_value_heads"}, 12),
                           .head_dim = vision.size({"head_dim"}, 64),
                           .mask = {MaskKind::bidirectional, 0},
                           .q = "q_proj.linear",
                           .k = "k_proj.linear",
                           .v = "v_proj.linear",
                           .o = "o_proj.linear"};
  attention.q_norm = attention.k_norm = attention.head_dim;
  add_norm(layer, "input_layernorm", NormKind::rms, hidden, stream);
  add_attention(layer, attention, place);
  add_vision_weights(layer, "post_attention_layernorm", hidden);
  add_norm(layer, "pre_feedforward_layernorm", NormKind::rms, hidden, stream);
  place.prefix = "mlp.";
  add_mlp(layer,
          {.hidden = hidden,
           .width = vision.size({"intermediate_size"}, 3072),
           .gate = "gate_proj.linear",
           .up = "up_proj.linear",
           .down = "down_proj.linear"},
          place);
  add_vision_weights(layer, "post_feedforward_layernorm", hidden);
  return layer;
}

void add_pictures(const Fields& vision, std::uint64_t text_hidden, ModelSpec& model) {
  std::uint64_t hidden = vision.size({"hidden_size"}, 768);
  std::uint64_t patch = vision.size({"patch_size"}, 16);
  std::uint64_t pooled = vision.size({"pooling_kernel_size"}, 3);
  // The size of square pictures with the most tokens that the processor makes: 256, where 280 are
  // allowed.
  model.image = ImageShape{.usual = {1, 16 * pooled, 16 * pooled}, .merge = pooled};
  LayerKind inputs;
  Component patches{.name = "patch_embedder.input_proj",
                    .part = Part::vision,
                    .reads = 0,
                    .writes = wire::stream};
  patches.work = Projection{.in = 3 * patch * patch, .out = hidden, .rows = Rows::patches};
  inputs.components.push_back(std::move(patches));
  add_vision_weights(inputs, "patch_embedder.position_embedding_table",
                     2 * vision.size({"position_embedding_size"}, 10240) * hidden);
  const std::string prefix = "model.vision_tower.";
  model.stages.push_back(single_stage(prefix, Stream::vision, std::move(inputs)));
  model.stages.push_back(uniform_stage(prefix + "encoder.layers.", Stream::vision,
                                       picture_layer(vision, hidden),
                                       vision.layers({"num_hidden_layers"}, 16)));
  LayerKind projector;
  if (pooled > 1) {
    Component pooler{.name = "vision_tower.pooler",
                     .part = Part::vision,
                     .reads = wire::stream,
                     .writes = wire::stream};
    pooler.work = Attention{.mask = {MaskKind::pooled, pooled},
                            .rows = Rows::tower,
                            .heads = 1,
                            .kv_heads = 1,
                            .qk_dim = hidden,
                            .cached = false};
    projector.components.push_back(std::move(pooler));
  }
  add_vision_linear(projector, "embed_vision.embedding_projection", hidden, text_hidden, false,
                    Rows::merged);
  model.stages.push_back(single_stage("model.", Stream::vision, std::move(projector)));
}

struct SoundLayer {
  LayerKind& layer;
  std::uint64_t hidden;

  void matrix(std::string_view name, std::uint64_t in, std::uint64_t out, bool bias = false) const {
    add_linear(layer, Part::audio, {name, in, out, bias, wire::stream, wire::stream},
               {.rows = Rows::sound});
  }
  void vectors(std::string_view name, std::uint64_t count) const {
    add_weights(layer, name, Part::audio, count, wire::stream);
  }
  void feed_forward(const std::string& name) const {
    vectors(name + ".norms", 2 * hidden);
    matrix(name + ".ffw_layer_1.linear", hidden, 4 * hidden);
    matrix(name + ".ffw_layer_2.linear", 4 * hidden, hidden);
  }
};

LayerKind sound_layer(const Fields& audio, std::uint64_t hidden) {
  LayerKind kind;
  SoundLayer layer{kind, hidden};
  std::uint64_t head_dim = audio.head_width(hidden, audio.size({"num_attention_heads"}, 8));
  layer.feed_forward("feed_forward1");
  for (std::string_view name :
       {"q_proj.linear", "k_proj.linear", "v_proj.linear", "post.linear", "relative_k_proj"}) {
    layer.matrix("self_attn." + std::string(name), hidden, hidden);
  }
  layer.vectors("self_attn.per_dim_scale", head_dim);
  layer.matrix("lconv1d.linear_start.linear", hidden, 2 * hidden);
  layer.vectors("lconv1d.depthwise_conv1d", hidden * audio.size({"conv_kernel_size"}, 5));
  layer.matrix("lconv1d.linear_end.linear", hidden, hidden);
  layer.feed_forward("feed_forward2");
  layer.vectors("norms", 5 * hidden);
  return kind;
}

void add_sound(const Fields& audio, std::uint64_t text_hidden, ModelSpec& model) {
  std::uint64_t hidden = audio.size({"hidden_size"}, 1024);
  std::vector<std::uint64_t> channels = audio.counts({"subsampling_conv_channels"});
  if (!audio.has("subsampling_conv_channels")) channels = {128, 32};
  if (channels.size() != 2) {
    audio.complain("subsampling_conv_channels", "not two numbers");
    return;
  }
  const std::string prefix = "model.audio_tower.";
  LayerKind first, last;
  SoundLayer inputs{first, hidden}, outputs{last, hidden};
  inputs.matrix("subsample_conv_projection.layer0.conv", 9, channels[0]);
  inputs.matrix("subsample_conv_projection.layer1.conv", 9 * channels[0], channels[1]);
  inputs.vectors("subsample_conv_projection.norms", channels[0] + channels[1]);
  inputs.matrix("subsample_conv_projection.input_proj_linear", channels[0] / 4 * channels[1],
                hidden);
  model.stages.push_back(single_stage(prefix, Stream::vision, std::move(first)));
  model.stages.push_back(uniform_stage(prefix + "layers.", Stream::vision,
                                       sound_layer(audio, hidden),
                                       audio.layers({"num_hidden_layers"}, 12)));
  std::uint64_t out = audio.size({"output_proj_dims"}, 1536);
  outputs.matrix("audio_tower.output_proj", hidden, out, true);
  outputs.matrix("embed_audio.embedding_projection", out, text_hidden);
  model.stages.push_back(single_stage("model.", Stream::vision, std::move(last)));
  model.notes.push_back({"sound_not_counted", {}});
}

void build_gemma4_whole(const Fields& config, ModelSpec& model) {
  Fields text = config.section({"text_config"});
  std::uint64_t text_hidden = text.size({"hidden_size"}, 2304);
  if (has_vision(config, model)) {
    add_pictures(config.section({"vision_config"}), text_hidden, model);
  }
  if (config.has("audio_config")) add_sound(config.section({"audio_config"}), text_hidden, model);
  std::size_t first = model.stages.size();
  add_text_decoder(config, model, "gemma4_text", true);
  if (text.text({"use_bidirectional_attention"}, "") != "vision") return;
  // In layers with a window, the tokens of a picture see each other.
  for (Attention* attention : text_attentions(model, first)) {
    attention->pictures_whole = attention->mask.kind == MaskKind::window;
  }
}

}  // namespace

std::span<const Family> gemma4_media_families() {
  static constexpr Family kFamilies[] = {{"gemma4", build_gemma4_whole}};
  return kFamilies;
}

}  // namespace mfu
