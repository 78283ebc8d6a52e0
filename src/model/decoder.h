// The frame that decoder-only families share: the embedding, layers in the family's style, the
// final norm, and the head that the architecture's name asks for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/blocks.h"
#include "model/fields.h"

namespace mfu {

// Where a layer has its norms.
enum class NormPlan : std::uint8_t {
  pre,           // before attention and before the MLP
  sandwich,      // before and after both
  post,          // after both
  parallel,      // one norm; attention and MLP are parallel
  parallel_two,  // one norm each; attention and MLP are parallel
};

struct Decoder {
  std::string prefix = "model.", layers_name = "layers.", embedding = "embed_tokens";
  std::string attention_prefix = "self_attn.", mlp_prefix = "mlp.";
  std::uint64_t vocab = 0, hidden = 0, layers = 0, positions = 0;
  bool tied = false, head_bias = false;
  NormKind norm = NormKind::rms;
  NormPlan plan = NormPlan::pre;
  AttentionBlock attention;
  MlpBlock mlp;
  ExpertsBlock experts;
  std::uint64_t mlp_extra = 0;  // parameters of the activation
  std::vector<Mask> masks;      // one per layer
  std::vector<bool> is_moe;     // one per layer; empty if there are no experts
};

// Defaults of the HF config class. 0 means that the value follows from others.
struct DecoderDefaults {
  std::uint64_t hidden = 4096, layers = 32, heads = 32, kv_heads = 0, head_dim = 0, ffn = 11008,
                vocab = 32000;
  bool tied = false;
};
// Reads the fields that nearly every config has under the same names. All layers are causal.
Decoder read_decoder(const Fields& config, const DecoderDefaults& defaults);

// Reads masks from `layer_types` if the config has it, otherwise from `sliding_by_default`.
std::vector<Mask> read_masks(const Fields& config, std::uint64_t layers, Mask sliding,
                             const std::function<bool(std::uint64_t layer)>& sliding_by_default);

// The window of `sliding_window`. Null or 0 means no window.
Mask window_of(const Fields& config, std::uint64_t fallback = 0);
// Reads whether attention's matrices have a bias. One field holds for all of them.
bool read_biases(const Fields& config, std::string_view field, bool fallback,
                 AttentionBlock& attention);
// Adds norms of queries and keys: one norm per head, or one over the whole width.
void per_head_norms(Decoder& decoder);
void full_norms(Decoder& decoder);

void build_decoder(const Fields& config, const Decoder& decoder, ModelSpec& model);

// Adds the blocks of one layer, for families that mix other layers in.
void add_decoder_attention(LayerKind& layer, const Decoder& decoder, const Mask& mask);
void add_decoder_mlp(LayerKind& layer, const Decoder& decoder, bool moe);

// Adds the embedding before the stages that a family made itself, and the final norm and the head
// after them.
void add_decoder_frame(const Fields& config, const Decoder& decoder, Stage layers,
                       ModelSpec& model);

// What the name of an architecture says about its head.
enum class HeadKind : std::uint8_t { language, none, sequence, token, question };
HeadKind head_of(const ModelSpec& model);
std::uint64_t labels_of(const Fields& config);

// A model_type, and the function that makes a model of its config.
struct Family {
  std::string_view type;
  void (*build)(const Fields& config, ModelSpec& model);
};

}  // namespace mfu
