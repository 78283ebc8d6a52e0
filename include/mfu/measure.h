// What happened: how the FLOPs of a step are found out (four modes), on which steps they are
// measured, and how many tokens generation made. Takes the model's need (workload.h) and readings
// handed in; knows no peak and no sink.
//
//   mfu::FlopMeter meter({.mode = mfu::SmartMode{}, .model = *model});
//   meter.take_reading({.step = 0, .shape = shape, .flop = counted});      // measured once
//   mfu::MeasuredFlop step = meter.measure(7, longer_shape);  // step.source == Source::calibrated
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

}  // namespace mfu
