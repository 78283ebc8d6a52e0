// What happened: how the FLOPs of a step are found out (four modes), on which steps they are
// measured, and how many tokens generation made. Takes the model's need (workload.h) and readings
// handed in; knows no peak and no sink.
//
//   mfu::FlopMeter meter({.mode = mfu::SmartMode{}});
//   mfu::StepShape shape = mfu::StepShape::of(8, 4096);
//   meter.take_reading({.step = 0, .shape = shape, .flop = 1'000'000'000});  // measured once
//   auto step = meter.measure(7, shape, std::chrono::milliseconds(250));  // ->source says how
//   mfu::TokenTracker tokens;
//   tokens.add(128);                          // any thread, any time
//   mfu::TokenPeriod period = tokens.take();  // the period ends here, the next one begins
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mfu/units.h"
#include "mfu/workload.h"

namespace mfu {

// Which way a number of FLOPs came.
enum class Source : std::uint8_t { estimated, counted, calibrated, hardware };
std::string_view name_of(Source source);

// The four modes, a closed set.
struct EstimateMode {};
struct ProfilerMode {};
struct SmartMode {
  bool initial_profiling = true;                 // the first step is measured
  bool calibration_enabled = true;               // false: estimates are left as they are
  std::uint64_t recalibration_frequency = 1000;  // steps; 0: never again
};
struct HybridMode {
  bool hardware_counters_enabled = true;
  bool fallback_to_profiler = true;  // false: falls back to the estimate
};
using Mode = std::variant<EstimateMode, ProfilerMode, SmartMode, HybridMode>;
std::string_view name_of(const Mode& mode);
// "estimate", "profiler", "smart", "hybrid"; `not_found` with near names.
Result<Mode> parse_mode(std::string_view name);

// Where in its life a training run is: how often it pays to measure.
enum class TrainingPhase : std::uint8_t { warmup, main, finetune };
std::string_view name_of(TrainingPhase phase);
Result<TrainingPhase> parse_training_phase(std::string_view name);

// On which steps FLOPs are measured. A step is due where its number is a multiple of the period.
struct Schedule {
  std::uint64_t warmup = 1000, main = 500, finetune = 200;  // steps; 0: never
  std::optional<std::uint64_t> fixed{};                     // instead of all three; 0: never

  std::uint64_t period(TrainingPhase phase) const;
  bool due(std::uint64_t step, TrainingPhase phase) const;
};

// What ran through the model in one step of this rank. Lengths are kept as Σs and Σs², so that rows
// of unequal length cost what they cost.
struct StepShape {
  std::uint64_t sequences = 0;
  std::uint64_t tokens = 0;         // Σs
  std::uint64_t squares = 0;        // Σs²
  std::uint64_t padded_length = 0;  // rows were padded to this; 0: they were not
  std::uint64_t images = 0;

  static StepShape of(std::uint64_t batch, std::uint64_t sequence) {
    return {.sequences = batch, .tokens = batch * sequence, .squares = batch * sequence * sequence};
  }
  bool known() const { return sequences != 0 && tokens != 0; }
  bool operator==(const StepShape&) const = default;
};

// FLOPs somebody counted (the observer, a caller) of one step.
struct FlopReading {
  std::uint64_t step = 0;
  StepShape shape;
  FlopCount flop{};
  // How much of it was attention between tokens, where the counter can tell; then one reading fixes
  // both terms of a calibration.
  std::optional<FlopCount> attention_flop{};
  bool of_another_rank = false;  // holds for this rank's step only where the same lengths ran
};

// measured = linear × (all but attention, as estimated) + quadratic × (attention, as estimated over
// the attended pairs, or over the whole square where that is what ran).
struct Calibration {
  double linear = 1, quadratic = 1;
  bool square = false;
  std::uint64_t step = 0;      // it was made at
  std::uint32_t readings = 0;  // it rests on; 0: there is none yet
  bool apart = false;          // the two terms were told apart; false: one factor for both
  double least_share = 0, most_share = 0;  // of attention in the FLOPs, among the readings
};

struct MeasuredFlop {
  FlopCount flop{};
  Source source = Source::estimated;
  std::optional<Calibration> calibration{};        // where source is calibrated
  std::optional<std::uint64_t> calibration_age{};  // steps since then
  std::string note{};                              // why not the source that was asked for
};

struct MeterOptions {
  Mode mode = EstimateMode{};
  std::optional<ModelSpec> model{};        // none: nothing can be estimated
  std::optional<TrainingPlan> training{};  // frozen weights, adapters
  Recompute recompute = Recompute::none;
  Phase phase = Phase::train;
};

// The FLOPs of steps by one mode. One thread at a time; keeps a bounded number of readings.
class FlopMeter {
 public:
  explicit FlopMeter(MeterOptions options);
  ~FlopMeter();
  FlopMeter(FlopMeter&&) noexcept;
  FlopMeter& operator=(FlopMeter&&) noexcept;

  // Somebody measured a step. In smart mode it calibrates those that follow.
  void take_reading(const FlopReading& reading);
  // Another rank's calibration, as good as one made here.
  void take_calibration(const Calibration& calibration);
  const Calibration& calibration() const;

  // What hardware counters say now (CounterSampler); a failure makes hybrid mode fall back.
  void take_hardware_rate(const Result<FlopRate>& rate);

  // The FLOPs of that step. `invalid_argument` or `unsupported` with the reason where this mode has
  // no number for it. `duration` is what a hardware rate is multiplied with.
  Result<MeasuredFlop> measure(std::uint64_t step, const StepShape& shape,
                               std::optional<std::chrono::nanoseconds> duration);

  // Whether a measurement is worth its cost now, beyond what a schedule says: nothing calibrated
  // yet, calibrated too long ago, or for other shapes.
  bool wants_reading(std::uint64_t step, const StepShape& shape) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What was generated between two take()s.
struct TokenPeriod {
  std::chrono::nanoseconds elapsed{};
  std::uint64_t generated = 0;  // new tokens: by add(), and those of decode steps
  // Of prefill and decode, where they were told apart.
  std::uint64_t prompts = 0, prompt_tokens = 0, prompt_squares = 0;
  std::uint64_t decode_steps = 0, decode_tokens = 0, decode_context = 0;  // Σ context of the tokens
};

// Counters stand a cache line apart, a line a thread while there are no more threads than lines.
// take() reads them and remembers: nothing is ever set back, so no token can fall between.
class TokenTracker {
 public:
  explicit TokenTracker(const Clock& clock = Clock::system());

  // Tokens that were generated, nothing more being known of them.
  void add(std::uint64_t tokens) { add_to(line().generated, tokens); }
  // Prompts that went into the cache.
  void add_prefill(const StepShape& prompts);
  // One decode step: a new token for each of `sequences`, which hold `context` tokens in all.
  void add_decode(std::uint64_t sequences, std::uint64_t context);

  // Ends a period. Callable from any thread.
  TokenPeriod take();

 private:
  using Counter = std::atomic<std::uint64_t>;
  static constexpr std::size_t kLines = 64;
  struct alignas(128) Line {
    Counter generated{0}, prompts{0}, prompt_tokens{0}, prompt_squares{0};
    Counter decode_steps{0}, decode_tokens{0}, decode_context{0};
  };
  static void add_to(Counter& counter, std::uint64_t more) {
    counter.fetch_add(more, std::memory_order_relaxed);
  }
  static std::size_t thread_number();
  Line& line() {
    thread_local const std::size_t kNumber = thread_number();
    return lines_[kNumber % kLines];
  }
  TokenPeriod sum() const;

  const Clock& clock_;
  std::array<Line, kLines> lines_;
  std::mutex taking_;
  TokenPeriod taken_;  // everything up to the last take(); elapsed: when that was
};

// A model that no family of model.h describes, asked of the library that defines it: transformers
// or diffusers builds its class on the meta device, and mfu/ops.h prices the operators that run.
// No weights, no network, no code of a config or a hub.
struct ImageSize {
  std::uint64_t height = 0, width = 0;
};
struct ClassOptions {
  std::string python = "python3";  // that has the library
  ImageSize image{};               // pixels; zeros: as the config says
  ImageSize latent{};              // of a diffusion model, instead
};
struct ClassNeed {
  std::string name, type, architecture;
  std::string library, version;  // "transformers", "5.22.2"
  ParameterCount parameters;
  FlopNeed need;
};
// The first answer takes the time of importing the library; it is kept in cache_directory() for as
// long as config, question and library stay the same. `unsupported` with the class's own words
// where it cannot be built or run, in bounded time and memory.
Result<ClassNeed> ask_class(const std::string& path, const ConfigOptions& config,
                            const Workload& work, const ClassOptions& options);

struct GenerationOptions {
  const ModelSpec* model = nullptr;        // FLOPs by phase and context length
  std::optional<double> flop_per_token{};  // instead, or where there is no model
};

struct GenerationUse {
  double tokens_per_s = 0;
  std::uint64_t tokens = 0;
  std::chrono::nanoseconds elapsed{};
  std::optional<double> flop_per_token{};
  std::optional<FlopCount> flop{};
  std::optional<Bytes> moved{};  // by decode steps, where those were counted
  std::string note{};            // why something is not there
};
// `invalid_argument` where no time went by or nothing was generated.
Result<GenerationUse> generation_use(const TokenPeriod& period, const GenerationOptions& options);

}  // namespace mfu
