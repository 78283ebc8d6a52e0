// What one step of a model needs. A Workload says what runs through the model, and a TrainingPlan
// which weights are trained. From both come the step's FLOPs and bytes. Other systems count the
// same step by other conventions; each of them has a name here. Builds on model.h.
//
//   mfu::ModelSpec model = MFU_TRY(mfu::read_model("config.json", {}));
//   mfu::Workload work{.phase = mfu::Phase::train, .batch = 8, .sequence = 4096};
//   mfu::FlopNeed need = MFU_TRY(mfu::flop_per_step(model, work));
//   auto palm = MFU_TRY(mfu::flop_by_convention(model, work, mfu::Convention::palm, {}));
//   if (!palm.model_flop) std::puts(palm.why.c_str());  // "vision_model"
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
  forward,  // every position, with logits for all
  prefill,  // a prompt goes into the cache, with logits for the last position only
  decode,   // `sequence` new tokens after `context` cached ones; more than 1: speculative decoding
};
std::string_view name_of(Phase phase);
Result<Phase> parse_phase(std::string_view name);

// What the backward pass computes again: nothing, the attention scores, or every layer.
enum class Recompute : std::uint8_t { none, selective, full };
Result<Recompute> parse_recompute(std::string_view name);

// The form of multi-head latent attention. `expanded`: keys and values are made from the latent.
// `absorbed`: scores are computed on the latent itself. `automatic`: absorbed in decode, otherwise
// expanded.
enum class MlaForm : std::uint8_t { automatic, expanded, absorbed };

// Packed or ragged lengths of which only the sums are known.
struct LengthSums {
  std::uint64_t sequences = 0, tokens = 0;
  Uint128 squares = 0;
};

struct Workload {
  Phase phase = Phase::train;
  std::uint64_t batch = 1;
  std::uint64_t sequence = 1;            // new tokens per sequence, including image tokens
  std::uint64_t context = 0;             // tokens per sequence that are already in the cache
  std::uint64_t encoder_sequence = 0;    // 0: as fixed by the model, or else `sequence`
  std::vector<std::uint64_t> lengths{};  // one per sequence, instead of batch and sequence
  std::optional<LengthSums> sums{};      // instead of batch, sequence and lengths
  std::uint64_t images = 0;              // in the whole step
  ImageGrid grid{};                      // zeros: the model's usual image size
  Recompute recompute = Recompute::none;
  MlaForm mla = MlaForm::automatic;
  bool mtp = false;  // whether the multi-token-prediction layers run too
};

struct FlopNeed {
  FlopCount model_flop;     // without recomputation
  FlopCount hardware_flop;  // with recomputation
  std::uint64_t tokens = 0;
  std::uint64_t image_tokens = 0;  // how many of the tokens come from images
  ByPart<FlopCount> by_part;       // adds up to model_flop
  std::vector<Note> notes;         // what was approximated or assumed: a mask, an image size, …
};

// Which weights are trained. Patterns are globs over weight names ("model.layers.1?.mlp.*").
struct TrainingOptions {
  std::vector<std::string> frozen{};
  std::uint64_t lora_rank = 0;              // if above 0, all weights of the base are frozen
  std::vector<std::string> lora_targets{};  // last part of a weight's name; empty: every projection
};
struct LayerPlan {
  std::uint32_t kind = 0;         // index into Stage::kinds
  std::uint64_t count = 0;        // of neighbouring layers with this plan
  std::uint64_t trained = ~0ull;  // one bit per component of the kind
  std::uint64_t adapted = 0;      // the same for components that have an adapter
};
struct TrainingPlan {
  std::vector<std::vector<LayerPlan>> stages;  // one per stage of ModelSpec::stages
  std::uint64_t lora_rank = 0;
  std::uint64_t parameters_trained = 0;  // including adapters
  std::uint64_t parameters_adapter = 0;
};
// One plan can be used for every step. Fails with `invalid_argument` if a pattern or target matches
// no weight; the error then suggests similar names.
Result<TrainingPlan> plan_training(const ModelSpec& model, const TrainingOptions& options);

// The FLOPs of one step. Fails with `invalid_argument` if the step cannot be: a length of 0 or
// above 2^40, images for a model without a vision tower, and so on.
Result<FlopNeed> flop_per_step(const ModelSpec& model, const Workload& work);
Result<FlopNeed> flop_per_step(const ModelSpec& model, const Workload& work,
                               const TrainingPlan& plan);

// One step of reinforcement learning: three kinds of passes over the same tokens. The step says how
// many of each kind.
//   flop_per_reinforcement_step(model, {.sequences = 64, .prompt = 512, .response = 1024})
struct ReinforcementStep {
  std::uint64_t sequences = 1, prompt = 0, response = 0;  // prompt and response at least 1
  std::uint64_t generations = 1;  // each is a prefill of the prompt and a decode of the response
  std::uint64_t forwards = 1;     // each is a forward: reference, old log-probabilities, reward
  std::uint64_t updates = 1;      // each is a forward and a backward: learner, critic
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
  std::uint64_t kv_cache_per_token = 0;  // while no sliding window is full
  std::uint64_t kv_cache = 0;            // size after the step, including states
  std::uint64_t state = 0;               // states of recurrences and convolutions, all sequences
  // Bytes that the step must move: the cache and the weights once each, but only those experts that
  // uniform routing reaches. None for training, which also moves gradients and optimizer states.
  std::optional<std::uint64_t> step_read, step_written;
};
// The memory traffic of inference that no schedule can avoid. Fails as flop_per_step() does.
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
  std::string_view source;  // where its formula can be read
  std::string_view why;     // one line: how it differs from `exact`
};
const ConventionRow& describe(Convention convention);
std::vector<Convention> all_conventions();
// Fails with `not_found`, and suggests similar names.
Result<Convention> parse_convention(std::string_view name);

struct ConventionOptions {
  // The published number of parameters. Conventions whose formula has an N use it instead of our
  // own count.
  std::optional<std::uint64_t> parameters = {};
  // Frozen weights and adapters. Only `exact` and the flopcounter conventions know them; the others
  // count every weight as trained.
  const TrainingPlan* plan = nullptr;
};

struct ConventionCount {
  std::optional<FlopCount> model_flop;
  std::optional<FlopCount> hardware_flop;
  std::string why;  // why there is no count, or what it leaves out, as a code; else empty
};
// The FLOPs of the step as that convention counts them. If it does not define them, there are none,
// and `why` says so. Fails only if flop_per_step() does.
Result<ConventionCount> flop_by_convention(const ModelSpec& model, const Workload& work,
                                           Convention convention, const ConventionOptions& options);

}  // namespace mfu
