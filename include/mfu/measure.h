// How many FLOPs a step had, and how many tokens were generated. A FlopMeter finds the FLOPs in one
// of four modes, from the model's need (workload.h) and from readings that the caller hands in. A
// Schedule says on which steps to measure. A TokenTracker counts generated tokens. ask_class()
// counts a model that mfu does not know. Nothing here knows a peak.
//
//   mfu::FlopMeter meter({.mode = mfu::SmartMode{}});
//   mfu::StepShape shape = mfu::StepShape::of(8, 4096);
//   meter.take_reading({.step = 0, .shape = shape, .flop = 1'000'000'000});  // measured once
//   auto step = meter.measure(7, shape, std::chrono::milliseconds(250));  // ->source says how
//   mfu::TokenTracker tokens;
//   tokens.add(128);  // any thread, any time; tokens.take() ends the period
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

// How a number of FLOPs was found.
enum class Source : std::uint8_t { estimated, counted, calibrated, hardware };
std::string_view name_of(Source source);

// The four modes.
struct EstimateMode {};
struct ProfilerMode {};
struct SmartMode {
  bool initial_profiling = true;                 // measure the first step
  bool calibration_enabled = true;               // if false, estimates are not corrected
  std::uint64_t recalibration_frequency = 1000;  // in steps; 0 means only once
};
struct HybridMode {
  bool hardware_counters_enabled = true;
  bool fallback_to_profiler = true;  // if false, it falls back to the estimate
};
using Mode = std::variant<EstimateMode, ProfilerMode, SmartMode, HybridMode>;
std::string_view name_of(const Mode& mode);
// Reads "estimate", "profiler", "smart" or "hybrid". Fails with `not_found` and near names.
Result<Mode> parse_mode(std::string_view name);

// The part of a training that a step belongs to. It decides how often FLOPs are measured.
enum class TrainingPhase : std::uint8_t { warmup, main, finetune };
std::string_view name_of(TrainingPhase phase);
Result<TrainingPhase> parse_training_phase(std::string_view name);

// On which steps FLOPs are measured: those whose number is a multiple of the period.
struct Schedule {
  std::uint64_t warmup = 1000, main = 500, finetune = 200;  // periods in steps; 0 means never
  std::optional<std::uint64_t> fixed{};                     // one period instead of these three

  std::uint64_t period(TrainingPhase phase) const;
  bool due(std::uint64_t step, TrainingPhase phase) const;
};

// What ran through the model in one step of this rank. For lengths s it keeps Σs and Σs²: these two
// sums give the exact FLOPs of rows of unequal length.
struct StepShape {
  std::uint64_t sequences = 0;
  std::uint64_t tokens = 0;         // Σs
  std::uint64_t squares = 0;        // Σs²
  std::uint64_t padded_length = 0;  // length to which rows were padded; 0 if they were not
  std::uint64_t images = 0;

  static StepShape of(std::uint64_t batch, std::uint64_t sequence) {
    return {.sequences = batch, .tokens = batch * sequence, .squares = batch * sequence * sequence};
  }
  bool known() const { return sequences != 0 && tokens != 0; }
  bool operator==(const StepShape&) const = default;
};

// The FLOPs of one step as somebody counted them: the observer, or the caller.
struct FlopReading {
  std::uint64_t step = 0;
  StepShape shape;
  FlopCount flop{};
  // How much of `flop` was attention between tokens, if the counter knows. Then a single reading
  // gives both factors of a calibration.
  std::optional<FlopCount> attention_flop{};
  bool of_another_rank = false;  // used for a step of this rank only if it had the same lengths
};

// Corrects estimates: measured = linear × (estimate without attention) + quadratic × (estimate of
// attention). If `square`, attention is estimated over the whole square, not over attended pairs.
struct Calibration {
  double linear = 1, quadratic = 1;
  bool square = false;
  std::uint64_t step = 0;      // step at which it was made
  std::uint32_t readings = 0;  // number of readings behind it; 0 if there is no calibration yet
  bool apart = false;          // whether the two factors could be told apart; else they are equal
  double least_share = 0, most_share = 0;  // of attention in the FLOPs of the readings
};

struct MeasuredFlop {
  FlopCount flop{};
  Source source = Source::estimated;
  std::optional<Calibration> calibration{};        // if source is calibrated
  std::optional<std::uint64_t> calibration_age{};  // steps since it was made
  std::string note{};                              // why another source was used than asked for
};

struct MeterOptions {
  Mode mode = EstimateMode{};
  std::optional<ModelSpec> model{};        // without a model nothing can be estimated
  std::optional<TrainingPlan> training{};  // frozen weights, adapters
  Recompute recompute = Recompute::none;
  Phase phase = Phase::train;
};

// Finds the FLOPs of steps in one mode. Only one thread may use it at a time. It keeps a bounded
// number of readings.
class FlopMeter {
 public:
  explicit FlopMeter(MeterOptions options);
  ~FlopMeter();
  FlopMeter(FlopMeter&&) noexcept;
  FlopMeter& operator=(FlopMeter&&) noexcept;

  // Takes the counted FLOPs of a step. In smart mode they calibrate the steps that follow.
  void take_reading(const FlopReading& reading);
  // Takes the calibration of another rank and uses it like one of its own.
  void take_calibration(const Calibration& calibration);
  const Calibration& calibration() const;

  // Takes the current rate of the hardware counters. A failure makes hybrid mode fall back.
  void take_hardware_rate(const Result<FlopRate>& rate);

  // The FLOPs of a step. Fails with `invalid_argument` or `unsupported` and the reason if this mode
  // cannot know them. A hardware rate is multiplied by `duration`.
  Result<MeasuredFlop> measure(std::uint64_t step, const StepShape& shape,
                               std::optional<std::chrono::nanoseconds> duration);

  // Whether this step should be measured even if the schedule does not ask for it: because nothing
  // is calibrated yet, or the calibration is too old or was made for other shapes.
  bool wants_reading(std::uint64_t step, const StepShape& shape) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What was generated between two take()s.
struct TokenPeriod {
  std::chrono::nanoseconds elapsed{};
  std::uint64_t generated = 0;  // new tokens: from add() and from decode steps
  // Prefill and decode, if the caller reports them separately.
  std::uint64_t prompts = 0, prompt_tokens = 0, prompt_squares = 0;
  std::uint64_t decode_steps = 0, decode_tokens = 0, decode_context = 0;  // Σ context of the tokens
};

// Counts generated tokens, from any number of threads. Each thread has its own cache line, so that
// counting threads do not slow each other down; beyond 64 threads, two may share one. take() never
// resets a counter: it remembers what it read and subtracts it the next time, so no token is lost.
class TokenTracker {
 public:
  explicit TokenTracker(const Clock& clock = Clock::system());

  // Adds generated tokens of which nothing more is known.
  void add(std::uint64_t tokens) { add_to(line().generated, tokens); }
  // Adds prompts that went into the cache.
  void add_prefill(const StepShape& prompts);
  // Adds one decode step: one new token for each of `sequences`, which have `context` tokens in
  // total.
  void add_decode(std::uint64_t sequences, std::uint64_t context);

  // Ends a period and returns it. Any thread may call it.
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
  TokenPeriod taken_;  // everything up to the last take(); `elapsed` is its time
};

// Counts a model that model.h does not know, by asking the library that defines it. transformers or
// diffusers builds the class on the meta device, and mfu/ops.h counts the operators that it runs.
// No weights, no network and no code from a config or a hub are used.
struct ImageSize {
  std::uint64_t height = 0, width = 0;
};
struct ClassOptions {
  std::string python = "python3";  // interpreter that has the library
  ImageSize image{};               // in pixels; zeros: the config's size
  ImageSize latent{};              // of a diffusion model, instead of `image`
  std::uint64_t frames = 0;        // of a video, in latents; 0: one
  TrainingOptions training{};
};
struct ClassNeed {
  std::string name, type, architecture;
  std::string library, version;  // "transformers", "5.22.2"
  ParameterCount parameters;
  std::uint64_t parameters_trained = 0;  // including adapters
  FlopNeed need;
  FlopCount flopcounter, flopcounter_fused;  // as these conventions count
  std::vector<Note> differences;             // how `flopcounter` differs from `need`, by operator
  std::vector<std::pair<std::string, std::vector<std::uint64_t>>> inputs;  // shapes by name
};
// The first answer takes as long as importing the library. It is kept in cache_directory() and used
// again while config, question and library stay the same. Time and memory are bounded. Fails with
// `unsupported` if the library does not know the model, with `malformed` and its own message if the
// class cannot be built or run, and with `not_found` if that interpreter lacks the library.
Result<ClassNeed> ask_class(const ConfigText& text, const ConfigOptions& config,
                            const Workload& work, const ClassOptions& options);

struct GenerationOptions {
  const ModelSpec* model = nullptr;        // gives FLOPs by phase and context length
  std::optional<double> flop_per_token{};  // used instead, or without a model
};

struct GenerationUse {
  double tokens_per_s = 0;
  std::uint64_t tokens = 0;
  std::chrono::nanoseconds elapsed{};
  std::optional<double> flop_per_token{};
  std::optional<FlopCount> flop{};
  std::optional<Bytes> moved{};  // by decode steps, if these were counted
  std::string note{};            // why a value is missing
};
// The FLOPs and rate of a period. Fails with `invalid_argument` if no time passed or nothing was
// generated.
Result<GenerationUse> generation_use(const TokenPeriod& period, const GenerationOptions& options);

}  // namespace mfu
