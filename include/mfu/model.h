// Describes a model as plain data: stages, which hold layers, which are made of five kinds of work.
// Parameters are counted here; FLOPs, bytes and every convention (mfu/workload.h) come from the
// same list. Nothing here knows a device or a clock.
//
//   mfu::ModelSpec model = MFU_TRY(mfu::read_model("config.json", {}));
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

// The part of a model to which parameters and FLOPs belong. name_of() gives its key in JSON.
enum class Part : std::uint8_t {
  embedding,
  position_embedding,
  attention_projections,
  attention_scores,
  mlp,
  experts,
  shared_experts,
  router,
  router_bias,  // stored with the model, but trained without a gradient
  indexer,      // chooses the tokens of sparse attention
  ssm,          // state-space and linear-attention mixers, short convolutions
  norm,
  lm_head,
  head,  // pooler, classifier
  vision,
  audio,
  modulation,   // adaptive norms of diffusion transformers
  adapter,      // LoRA
  mtp,          // multi-token prediction; not part of the model's total
  convolution,  // of pictures and sound, in a model that is counted by its class
};
inline constexpr std::size_t kPartCount = 20;
std::string_view name_of(Part part);

template <typename T>
struct ByPart {
  std::array<T, kPartCount> values{};
  T& operator[](Part part) { return values[static_cast<std::size_t>(part)]; }
  const T& operator[](Part part) const { return values[static_cast<std::size_t>(part)]; }
};

// What the rows of a matrix multiply are in one step.
enum class Rows : std::uint8_t {
  tokens,     // new tokens of the text (decoder) stream
  logits,     // the new tokens that need logits
  latents,    // new tokens, and cached ones if their latent is expanded again
  sequences,  // one row per sequence
  encoder,    // encoder tokens
  frames,     // encoder inputs before its strided convolution
  cross,      // encoder tokens, unless their keys are cached already
  joint,      // new and encoder tokens in one sequence (diffusion transformers)
  patches,    // patches of all images, before merging
  tower,      // patches and class tokens
  merged,     // image tokens that enter the text stream
  images,
  sound,  // inputs of an audio tower: always 0, because a Workload has no sound
};
inline constexpr std::size_t kRowsCount = 13;

enum class MaskKind : std::uint8_t {
  causal,
  window,         // causal, over the last `size` tokens including the token itself
  chunked,        // causal within blocks of `size`
  prefix,         // the first `size` tokens see each other; the rest is causal
  bidirectional,  // every token sees every token
  local,          // every token sees those at most `size` away, on both sides
  cross,          // every token sees every encoder token
  joint,          // new and encoder tokens all see each other
  top_k,          // each token sees the `size` best of the tokens before it
  blocks,         // bidirectional within blocks of at most `size` (vision windows)
  pooled,         // averages of size x size patches that a class makes by a matrix multiply
};

struct Mask {
  MaskKind kind = MaskKind::causal;
  std::uint64_t size = 0;
  bool operator==(const Mask&) const = default;
};

// The five kinds of work: Weights, Projection, Attention, Convolution, Recurrence. Sizes are those
// of one layer.
struct Weights {  // parameters without a matrix multiply: norms, tables, separate biases
  std::uint64_t count = 0;
};
struct Projection {  // also a convolution that is one matrix multiply per position
  std::uint64_t in = 0, out = 0;
  std::uint64_t copies = 1;    // matrices stored: the number of experts
  std::uint64_t active = 1;    // of these, how many a row needs
  std::uint64_t executed = 1;  // how many the Hugging Face class runs for a row
  bool bias = false;
  bool stored = true;  // false for a tied matrix, whose parameters are counted elsewhere
  Rows rows = Rows::tokens;
};
struct Attention {  // with v_dim 0: only the product of two streams (CLIP)
  Mask mask{};
  // The rows whose lengths the mask covers: `tokens`, `encoder` or `tower`. With `images`, every
  // text is compared with every image.
  Rows rows = Rows::tokens;
  std::uint64_t heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0;
  std::uint64_t latent_dim = 0, rope_dim = 0;  // MLA: sizes that the cache holds instead of heads
  bool cached = true;                          // false if it uses another layer's keys and values
  bool cuts_cache = true;       // the Hugging Face class drops keys outside the window or chunk
  bool pictures_whole = false;  // all tokens of one image see each other
};
struct Convolution {  // depthwise, causal, along the tokens
  std::uint64_t channels = 0, kernel = 0;
  bool bias = false;
};
enum class RecurrenceKind : std::uint8_t { mamba, mamba2, delta_rule, wkv };
struct Recurrence {  // each head has a state of key_dim x value_dim
  RecurrenceKind kind = RecurrenceKind::mamba;
  std::uint64_t heads = 0, key_dim = 0, value_dim = 0;
  std::uint64_t chunk = 0;  // tokens per chunk of the chunked form
};

// Values that pass from one component to the next, one bit each. Gradients flow back along them, so
// they decide what a backward pass costs when some weights are frozen.
// NOLINTBEGIN(readability-identifier-naming): read as words, wire::query
namespace wire {
inline constexpr std::uint8_t stream = 1, normed = 2, query = 4, key = 8, value = 16, inner = 32;
inline constexpr std::uint8_t encoded = 64, qkv = query | key | value;
}  // namespace wire
// NOLINTEND(readability-identifier-naming)

struct Component {
  std::string name{};  // of the weight inside its layer: "self_attn.q_proj"
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
  bool repeated = true;  // its layers have an index in their names and can be recomputed
  Stream stream = Stream::text;
  bool mtp = false;
  std::vector<LayerKind> kinds{};
  std::vector<LayerRun> order{};
};

struct ImageGrid {
  std::uint64_t frames = 0, height = 0, width = 0;  // in patches before merging
};
struct ImageShape {
  ImageGrid usual{};                      // from the config's image_size; zeros if not known
  std::uint64_t class_tokens = 0;         // extra tokens in the tower, besides the patches
  std::uint64_t merge = 1;                // merge x merge patches become one image token
  std::optional<std::uint64_t> tokens{};  // tokens of an image, if the model fixes them
  bool per_frame = true;                  // frames do not see each other
};

enum class Quantization : std::uint8_t { none, fp8, int8, int4, mxfp4 };
struct WeightFormat {
  std::uint64_t bits = 16;  // bits of a weight that is not quantised
  Quantization quantization = Quantization::none;
  std::uint64_t group = 0;  // how many weights share a scale; 0: the whole matrix
  std::uint64_t block_rows = 1;
  bool experts_only = false;
};

struct ModelSpec {
  std::string name, type, architecture;
  std::uint64_t hidden = 0, vocab = 0;
  std::uint64_t ffn = 0;  // intermediate_size, as conventions for dense models read it
  bool tied = false;
  bool vision_only = false;
  bool encoder_only = false;
  std::uint64_t encoder_sequence = 0;  // 0 unless the config fixes it (Whisper)
  std::uint64_t frames_per_encoder_token = 1;
  std::optional<ImageShape> image;
  WeightFormat format;
  std::optional<std::uint64_t> weight_bytes;  // known if tensor headers were read
  bool lower_bound = false;                   // made from tensor shapes alone: there may be more
  std::vector<Stage> stages;                  // in the order of the forward pass
  std::vector<Note> notes;                    // what was assumed
};

struct ParameterCount {
  std::uint64_t total = 0;      // each tensor once, without multi-token prediction
  std::uint64_t active = 0;     // total without the experts that a token does not use
  std::uint64_t embedding = 0;  // token and position tables
  ByPart<std::uint64_t> by_part;
};
ParameterCount count_parameters(const ModelSpec& model);

struct ConfigOptions {
  std::string architecture{};                                    // empty: the one in the config
  std::vector<std::pair<std::string, std::string>> overrides{};  // "text_config.num_hidden_layers"
  std::string assume{};                                          // read an unknown type as this one
  std::optional<std::uint64_t> mtp_layers{};                     // instead of the config's number
};
struct ConfigText {
  std::string path, name, text;  // the file, the model's name, the content of the file
};
// Reads the config at a path. In a folder that is config.json, else Meta's params.json.
Result<ConfigText> read_config_text(const std::string& path);
// Whether mfu itself knows this type of model. If not, ask_class() in mfu/measure.h may.
bool has_family(const ConfigText& config, const ConfigOptions& options);

// Reads a config.json, a folder that has one, or a .safetensors or .gguf file. Only headers are
// read, never tensor data, and no path that stands inside a file is followed. Fails with
// `malformed`, naming file and field, or with `unsupported` for an unknown type of model, naming
// missing fields.
Result<ModelSpec> read_model(const std::string& path, const ConfigOptions& options);
Result<ModelSpec> parse_model(std::string_view json, std::string_view name,
                              const ConfigOptions& options);
std::vector<std::string> known_model_types();

// The shape of a dense or mixture-of-experts decoder. Zero means not given: kv_heads is then heads,
// head_dim is hidden / heads, and ffn is 4 x hidden.
struct ModelShape {
  std::uint64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  std::uint64_t experts = 0, experts_per_token = 0;
  bool gated = true, tied = false;
};
Result<ModelSpec> model_of_shape(const ModelShape& shape);

}  // namespace mfu
