// One step of a model: what runs through it, what of it is trained, and what that needs in FLOPs
// and bytes; and how others count the same step, each convention by name. Stands on model.h.
//
//   mfu::Diagnostics diagnostics;
//   mfu::ModelSpec model = MFU_TRY(mfu::read_model("config.json", {}, diagnostics));
//   mfu::Workload work{.phase = mfu::Phase::train, .batch = 8, .sequence = 4096};
//   mfu::FlopNeed need = MFU_TRY(mfu::flop_per_step(model, work));  // recomputation left out
//   auto palm = MFU_TRY(mfu::flop_by_convention(model, work, mfu::Convention::palm, {}));
//   if (!palm.model_flop) std::puts(palm.note.c_str());  // it does not define such a model
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/model.h"

namespace mfu {

enum class Phase : std::uint8_t {
  train,    // forward and backward
  forward,  // every position, logits of all
  prefill,  // a prompt into the cache, logits of the last position
  decode,   // `sequence` new tokens (1: plain; more: speculative) on a cache of `context`
};
std::string_view name_of(Phase phase);
Result<Phase> parse_phase(std::string_view name);

// What the backward pass runs again: nothing; the attention scores; every layer.
enum class Recompute : std::uint8_t { none, selective, full };
Result<Recompute> parse_recompute(std::string_view name);

// Multi-head latent attention: keys and values made from the latent, or the scores taken in the
// latent's own space. `automatic`: absorbed in decode, else expanded.
enum class MlaForm : std::uint8_t { automatic, expanded, absorbed };

// Packed or ragged lengths where only their sums are known.
struct LengthSums {
  std::uint64_t sequences = 0, tokens = 0;
  Uint128 squares = 0;
};

struct Workload {
  Phase phase = Phase::train;
  std::uint64_t batch = 1;
  std::uint64_t sequence = 1;            // new tokens of each, image tokens among them
  std::uint64_t context = 0;             // tokens of each already in the cache
  std::uint64_t encoder_sequence = 0;    // 0: as the model fixes it, else `sequence`
  std::vector<std::uint64_t> lengths{};  // instead of batch x sequence
  std::optional<LengthSums> sums{};      // instead of either
  std::uint64_t images = 0;              // in all
  ImageGrid grid{};                      // zeros: the model's usual picture
  Recompute recompute = Recompute::none;
  MlaForm mla = MlaForm::automatic;
  bool mtp = false;  // multi-token-prediction layers run too
};

struct FlopNeed {
  FlopCount model_flop;     // recomputation left out
  FlopCount hardware_flop;  // recomputation in
  std::uint64_t tokens = 0;
  std::uint64_t image_tokens = 0;  // of them, as the text stream gets them
  ByPart<FlopCount> by_part;       // of model_flop
  std::vector<std::string> notes;  // where a mask was approximated, a picture assumed, …
};

// What is trained. Patterns are globs over weight names ("model.layers.1?.mlp.*"); the plan is made
// once and serves every step.
struct TrainingOptions {
  std::vector<std::string> frozen{};
  std::uint64_t lora_rank = 0;              // above 0: the whole base is frozen
  std::vector<std::string> lora_targets{};  // last part of a weight's name; empty: every projection
};
struct LayerPlan {
  std::uint32_t kind = 0;
  std::uint64_t count = 0;
  std::uint64_t trained = ~0ull;  // a bit a component of the kind
  std::uint64_t adapted = 0;
};
struct TrainingPlan {
  std::vector<std::vector<LayerPlan>> stages;  // as ModelSpec::stages
  std::uint64_t lora_rank = 0;
  std::uint64_t parameters_trained = 0;  // adapters among them
  std::uint64_t parameters_adapter = 0;
};
// `invalid_argument` for a pattern or target that fits no weight, with near names.
Result<TrainingPlan> plan_training(const ModelSpec& model, const TrainingOptions& options);

// `invalid_argument` for a length of 0 or beyond 2^40, an image count without a vision tower, ….
Result<FlopNeed> flop_per_step(const ModelSpec& model, const Workload& work);
Result<FlopNeed> flop_per_step(const ModelSpec& model, const Workload& work,
                               const TrainingPlan& plan);

// The passes of one step of reinforcement learning over the same tokens, each by what it is.
//   flop_per_reinforcement_step(model, {.sequences = 64, .prompt = 512, .response = 1024})
struct ReinforcementStep {
  std::uint64_t sequences = 1, prompt = 0, response = 0;  // prompt and response: at least 1
  std::uint64_t generations = 1;  // prefill of the prompt, decode of the response
  std::uint64_t forwards = 1;     // reference, old log-probabilities, reward: forward each
  std::uint64_t updates = 1;      // learner and critic: forward and backward each
};
struct ReinforcementNeed {
  FlopCount generate, forward, update, total;
};
Result<ReinforcementNeed> flop_per_reinforcement_step(const ModelSpec& model,
                                                      const ReinforcementStep& step);
Result<ReinforcementNeed> flop_per_reinforcement_step(const ModelSpec& model,
                                                      const ReinforcementStep& step,
                                                      const TrainingPlan& plan);

struct ByteNeed {
  std::uint64_t weights = 0;
  std::uint64_t kv_cache_per_token = 0;  // while no window is full
  std::uint64_t kv_cache = 0;            // after the step, states included
  std::uint64_t state = 0;               // of recurrences and convolutions, of all sequences
  // Weights and cache once each, of the experts as many as uniform routing reaches; none in
  // training, where gradients and optimizer states move too.
  std::optional<std::uint64_t> step_read, step_written;
};
// Inference traffic that no schedule can avoid.
Result<ByteNeed> bytes_per_step(const ModelSpec& model, const Workload& work);

enum class Convention : std::uint8_t {
  exact,
  palm,
  megatron,
  maxtext,
  torchtitan,
  llmc,
  verl,
  llamafactory,
  levanter,
  open_instruct,
  trl,
  flopcounter,
  flopcounter_fused,
  six_n,
};
inline constexpr std::size_t kConventionCount = 14;

struct ConventionRow {
  Convention convention;
  std::string_view name;    // "open-instruct"
  std::string_view source;  // where its formula stands
  std::string_view why;     // one line: what it counts otherwise than `exact`
};
const ConventionRow& describe(Convention convention);
std::vector<Convention> all_conventions();
// `not_found` with near names.
Result<Convention> parse_convention(std::string_view name);

struct ConventionOptions {
  // The published parameter count, where the shape does not fix it: conventions written in N take
  // it for N.
  std::optional<std::uint64_t> parameters = {};
  // Only `exact` and the flopcounter ones know frozen weights and adapters; others bill all.
  const TrainingPlan* plan = nullptr;
};

struct ConventionCount {
  std::optional<FlopCount> model_flop;
  std::optional<FlopCount> hardware_flop;
  std::string note;  // why there is none, or what was left out
};
// Fails only where flop_per_step() would.
Result<ConventionCount> flop_by_convention(const ModelSpec& model, const Workload& work,
                                           Convention convention, const ConventionOptions& options);

}  // namespace mfu
