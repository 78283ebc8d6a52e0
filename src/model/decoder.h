// The frame that decoder-only families share: embedding, layers in the family's style, final norm,
// the head that the architecture's name asks for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/blocks.h"
#include "model/fields.h"

namespace mfu {

// Where the norms of a layer stand.
enum class NormPlan : std::uint8_t {
  pre,           // before attention and before the MLP
  sandwich,      // before and after both
  post,          // after both
  parallel,      // one norm, attention and MLP beside each other
  parallel_two,  // one norm each, beside each other
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
  std::vector<Mask> masks;      // a layer each
  std::vector<bool> is_moe;     // a layer each; empty: no experts
};

struct DecoderDefaults {  // of the HF config class; 0: derived
  std::uint64_t hidden = 4096, layers = 32, heads = 32, kv_heads = 0, head_dim = 0, ffn = 11008,
                vocab = 32000;
  bool tied = false;
};
// Reads what nearly every config calls by the same names; all layers causal.
Decoder read_decoder(const Fields& config, const DecoderDefaults& defaults);

// Masks from `layer_types` where given, else by `sliding_by_default`.
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

// One layer's blocks, for families that mix other layers in.
void add_decoder_attention(LayerKind& layer, const Decoder& decoder, const Mask& mask);
void add_decoder_mlp(LayerKind& layer, const Decoder& decoder, bool moe);

// Embedding before, final norm and head after the stages a family made itself.
void add_decoder_frame(const Fields& config, const Decoder& decoder, Stage layers,
                       ModelSpec& model);

// What an architecture's name says of its head.
enum class HeadKind : std::uint8_t { language, none, sequence, token, question };
HeadKind head_of(const ModelSpec& model);
std::uint64_t labels_of(const Fields& config);

// model_type, and how its config becomes a model.
struct Family {
  std::string_view type;
  void (*build)(const Fields& config, ModelSpec& model);
};

}  // namespace mfu
