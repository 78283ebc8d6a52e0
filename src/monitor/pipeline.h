// Turns logged steps into reports: checks, FLOPs in the chosen mode, utilization. It is used by one
// thread and touches no clock and no file, so replaying a run directory gives the same reports.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mfu/measure.h"
#include "mfu/steps.h"
#include "monitor/logged_step.h"

namespace mfu {

struct PipelineOptions {
  MeterOptions meter{};
  UtilizationBasis basis{};
  std::optional<double> flop_per_token{};
  std::chrono::nanoseconds realtime_offset{};  // plus the monitor's clock gives time since 1970
};

class StepPipeline {
 public:
  using Warn = std::function<void(std::string)>;
  StepPipeline(PipelineOptions options, Warn warn);

  // Returns a report for a step, and none for a record that only affects later steps.
  std::optional<StepReport> take(const LoggedStep& logged);

  const PipelineOptions& options() const { return options_; }
  const Calibration& calibration() const { return meter_.calibration(); }
  bool wants_reading(std::uint64_t step) const { return meter_.wants_reading(step, shape_); }

 private:
  StepReport report(const LoggedStep& logged);
  std::optional<std::chrono::nanoseconds> duration_of(const LoggedStep& logged);
  std::optional<double> number(double value, bool given, std::string_view name,
                               const LoggedStep& logged);
  StepShape shape_of(const LoggedStep& logged);
  std::optional<MeasuredFlop> flop_of(const LoggedStep& logged, const StepShape& shape,
                                      std::optional<std::chrono::nanoseconds> duration);
  void take_period(const LoggedStep& logged);
  void take_phase(const LoggedStep& logged);
  // For a period in which only the observer counted tokens.
  std::optional<GenerationUse> observed_generation() const;
  // Warns once for each kind of problem.
  void warn(std::string_view kind, std::string message);

  PipelineOptions options_;
  std::shared_ptr<const UtilizationBasis> basis_;
  FlopMeter meter_;
  Warn warn_;
  std::set<std::string, std::less<>> warned_;
  std::optional<std::uint64_t> last_step_;
  std::optional<std::int64_t> last_end_ns_;
  StepShape shape_;  // of the newest step
  std::optional<GenerationUse> generation_;
  std::vector<PhaseDone> phases_;           // of the period that ends with the next step
  std::chrono::nanoseconds phases_time_{};  // of that period
};

// Put values of other kinds into a LoggedStep.
LoggedStep logged_reading(const FlopReading& reading);
LoggedStep logged_calibration(const Calibration& calibration);
LoggedStep logged_period(const TokenPeriod& period);
// `elapsed`: the time of the whole period.
LoggedStep logged_phase(const PhaseDone& sum, std::chrono::nanoseconds elapsed);
LoggedStep logged_hardware(const Result<FlopRate>& rate);
inline void keep_shape(LoggedStep& logged, const StepShape& shape) {
  logged.sequences = shape.sequences;
  logged.tokens = shape.tokens;
  logged.squares = shape.squares;
  logged.padded_length =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(shape.padded_length, ~0u));
  logged.images = static_cast<std::uint32_t>(std::min<std::uint64_t>(shape.images, ~0u));
}
// The awaited step with the numbers that arrived for it.
LoggedStep completed(const LoggedStep& awaited, const LoggedStep& arrived);

}  // namespace mfu
