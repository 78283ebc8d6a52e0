// What a model needs: a model is plain data, a list of stages of layers made of a few kinds of
// work. Parameters, FLOPs, bytes and every convention (mfu/workload.h) come from that one list.
// First stage of the pipeline, beside hardware.h; nothing here knows a device or a clock.
//
//   mfu::Diagnostics diagnostics;
//   mfu::ModelSpec model = MFU_TRY(mfu::read_model("config.json", {}, diagnostics));
//   mfu::ParameterCount count = mfu::count_parameters(model);
//   std::printf("%lu parameters, %lu used by a token\n", count.total, count.active);
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "mfu/result.h"
#include "mfu/units.h"

namespace mfu {

// Where parameters sit and FLOPs go. name_of() gives the key of the JSON.
enum class Part : std::uint8_t {
  embedding,
  position_embedding,
  attention_projections,
  attention_scores,
  mlp,
  experts,
  shared_experts,
  router,
  router_bias,  // persistent, learned without a gradient
  indexer,      // chooses the tokens of sparse attention
  ssm,          // state-space and linear-attention mixers, short convolutions
  norm,
  lm_head,
  head,  // pooler, classifier
  vision,
  audio,
  modulation,  // adaptive norms of diffusion transformers
  adapter,     // LoRA
  mtp,         // multi-token prediction: beside the model, outside its total
};
inline constexpr std::size_t kPartCount = 19;
std::string_view name_of(Part part);

template <typename T>
struct ByPart {
  std::array<T, kPartCount> values{};
  T& operator[](Part part) { return values[static_cast<std::size_t>(part)]; }
  const T& operator[](Part part) const { return values[static_cast<std::size_t>(part)]; }
};

// Which rows a matrix multiply sees in one step.
enum class Rows : std::uint8_t {
  tokens,     // new tokens of the text (decoder) stream
  logits,     // those of them that need logits
  latents,    // new tokens, and those in the cache where a latent is expanded again
  sequences,  // one a sequence
  encoder,    // encoder tokens
  frames,     // encoder inputs before its strided convolution
  cross,      // encoder tokens, unless their keys are in the cache already
  joint,      // new and encoder tokens in one sequence (diffusion transformers)
  patches,    // of all pictures, before merging
  tower,      // patches and class tokens
  merged,     // image tokens as the text stream gets them
  images,
  sound,  // of an audio tower: none, a Workload has no sound
};
inline constexpr std::size_t kRowsCount = 13;

enum class MaskKind : std::uint8_t {
  causal,
  window,         // causal, the last `size` tokens, itself among them
  chunked,        // causal within blocks of `size`
  prefix,         // the first `size` tokens see each other, then causal
  bidirectional,  // everything
  local,          // bidirectional, at most `size` away
  cross,          // every encoder token
  joint,          // new and encoder tokens, each other
  top_k,          // the `size` best of the causal ones
  blocks,         // bidirectional within blocks of at most `size` (vision windows)
  pooled,         // averages of size x size patches, which a class makes by a matrix multiply
};

struct Mask {
  MaskKind kind = MaskKind::causal;
  std::uint64_t size = 0;
  bool operator==(const Mask&) const = default;
};

// The five kinds of work. Sizes are of one layer.
struct Weights {  // norms, tables, lone biases: parameters without a matrix multiply
  std::uint64_t count = 0;
};
struct Projection {  // also every convolution that is one matrix multiply a position
  std::uint64_t in = 0, out = 0;
  std::uint64_t copies = 1;    // stored: the experts
  std::uint64_t active = 1;    // used by a row
  std::uint64_t executed = 1;  // run for a row by the Hugging Face class
  bool bias = false;
  bool stored = true;  // false: a matrix counted elsewhere (tied)
  Rows rows = Rows::tokens;
};
struct Attention {  // also a lone product of two streams: values of width 0
  Mask mask{};
  // Tokens, encoder or tower: whose lengths the mask is over; images: every text with every
  // picture.
  Rows rows = Rows::tokens;
  std::uint64_t heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0;
  std::uint64_t latent_dim = 0, rope_dim = 0;  // MLA: what the cache holds instead of heads
  bool cached = true;                          // false: keys and values are another layer's
  bool cuts_cache = true;       // HF's class drops keys that a window or chunk has left behind
  bool pictures_whole = false;  // the tokens of a picture see each other, also those that follow
};
struct Convolution {  // depthwise, causal, along the tokens
  std::uint64_t channels = 0, kernel = 0;
  bool bias = false;
};
enum class RecurrenceKind : std::uint8_t { mamba, mamba2, delta_rule, wkv };
struct Recurrence {  // a state of key_dim x value_dim a head
  RecurrenceKind kind = RecurrenceKind::mamba;
  std::uint64_t heads = 0, key_dim = 0, value_dim = 0;
  std::uint64_t chunk = 0;  // of the chunked form
};

// What carries a gradient from one component to the next, as bits: so that frozen weights cost what
// they cost, by position.
// NOLINTBEGIN(readability-identifier-naming): read as words, wire::query
namespace wire {
inline constexpr std::uint8_t stream = 1, normed = 2, query = 4, key = 8, value = 16, inner = 32;
inline constexpr std::uint8_t encoded = 64, qkv = query | key | value;
}  // namespace wire
// NOLINTEND(readability-identifier-naming)

struct Component {
  std::string name{};  // of the weight, below its layer: "self_attn.q_proj"
  Part part = Part::norm;
  std::uint8_t reads = wire::normed;
  std::uint8_t writes = wire::inner;
  std::variant<Weights, Projection, Attention, Convolution, Recurrence> work{};
  bool without_gradient = false;
};

struct LayerKind {
  std::vector<Component> components;
};
struct LayerRun {
  std::uint32_t kind = 0;
  std::uint64_t count = 0;
};
enum class Stream : std::uint8_t { text, encoder, vision };
struct Stage {
  std::string prefix{};  // "model.layers."
  bool repeated = true;  // its layers carry an index in their names, and are recomputed
  Stream stream = Stream::text;
  bool mtp = false;
  std::vector<LayerKind> kinds{};
  std::vector<LayerRun> order{};
};

struct ImageGrid {
  std::uint64_t frames = 0, height = 0, width = 0;  // patches before merging
};
struct ImageShape {
  ImageGrid usual{};                      // of the config's image_size; zeros: not known
  std::uint64_t class_tokens = 0;         // beside the patches in the tower
  std::uint64_t merge = 1;                // patches a side that become one image token
  std::optional<std::uint64_t> tokens{};  // of a picture, where fixed
  bool per_frame = true;                  // frames do not see each other
};

enum class Quantization : std::uint8_t { none, fp8, int8, int4, mxfp4 };
struct WeightFormat {
  std::uint64_t bits = 16;  // of a weight that is not quantised
  Quantization quantization = Quantization::none;
  std::uint64_t group = 0;  // weights that share a scale; 0: one for the matrix
  std::uint64_t block_rows = 1;
  bool experts_only = false;
};

struct ModelSpec {
  std::string name, type, architecture;
  std::uint64_t hidden = 0, vocab = 0;
  std::uint64_t ffn = 0;  // intermediate_size as conventions of dense models read it
  bool tied = false;
  bool vision_only = false;
  bool encoder_only = false;
  std::uint64_t encoder_sequence = 0;  // where the config fixes it (Whisper), else 0
  std::uint64_t frames_per_encoder_token = 1;
  std::optional<ImageShape> image;
  WeightFormat format;
  std::optional<std::uint64_t> weight_bytes;  // where the tensors themselves were read
  bool lower_bound = false;                   // made from tensor shapes: what they show is counted
  std::vector<Stage> stages;                  // in the order of the forward pass
  std::vector<std::string> notes;             // what was assumed
};

struct ParameterCount {
  std::uint64_t total = 0;      // each tensor once, MTP left out
  std::uint64_t active = 0;     // total less the experts a token does not visit
  std::uint64_t embedding = 0;  // token and position tables
  ByPart<std::uint64_t> by_part;
};
ParameterCount count_parameters(const ModelSpec& model);

struct ConfigOptions {
  std::string architecture{};                                    // empty: the config's own
  std::vector<std::pair<std::string, std::string>> overrides{};  // "text_config.num_hidden_layers"
  std::string assume{};                       // a type that is not known is read as this one
  std::optional<std::uint64_t> mtp_layers{};  // instead of the config's
};
struct ConfigText {
  std::string path, name, text;  // of the file, of the model, its content
};
// The config that a path leads to: itself, or config.json (else Meta's params.json) in a folder.
Result<ConfigText> read_config_text(const std::string& path);
// Whether a family here describes it. False: its class may know (ask_class() in mfu/measure.h).
bool has_family(const ConfigText& config, const ConfigOptions& options);

// A config.json, a folder that holds one, a .safetensors or .gguf file (headers only, never tensor
// data, never a path found inside a file). `malformed` with file and field; `unsupported` for a
// model type nobody described, with the fields it lacks.
Result<ModelSpec> read_model(const std::string& path, const ConfigOptions& options,
                             Diagnostics& diagnostics);
Result<ModelSpec> parse_model(std::string_view json, std::string_view name,
                              const ConfigOptions& options, Diagnostics& diagnostics);
std::vector<std::string> known_model_types();

// A dense or expert decoder from its shape alone. Zero: not given (kv_heads: heads; head_dim:
// hidden / heads; ffn: 4 hidden).
struct ModelShape {
  std::uint64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  std::uint64_t experts = 0, experts_per_token = 0;
  bool gated = true, tied = false;
};
Result<ModelSpec> model_of_shape(const ModelShape& shape);

}  // namespace mfu
