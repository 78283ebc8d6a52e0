// What one step of a live run came to, under the names the documents fix (perf/…, mfu/…), with how
// each utilization was made: convention, source, data type, peak. Sinks (mfu/sink.h) write it.
//
//   mfu::StepReport report = mfu::report_step(input, basis);
//   report.value("perf/mfu");  // 0.43; none where it is not known
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/convention.h"
#include "mfu/diagnostics.h"
#include "mfu/hardware.h"
#include "mfu/tokens.h"
#include "mfu/units.h"

namespace mfu {

// What every utilization of a run rests on.
struct UtilizationBasis {
  Convention convention = Convention::exact;
  std::optional<Precision> precision{};
  std::optional<FlopRate> peak{};  // of one device; none: no utilization
  std::string peak_source{};
  std::optional<ByteRate> bandwidth{};
  std::uint64_t devices = 1;  // that the counts below are of
  std::optional<std::uint32_t> rank{};
  bool zero_where_unmeasured = false;  // perf/mfu is 0, not absent, on steps without FLOPs
};

struct StepInput {
  std::uint64_t step = 0;
  std::chrono::nanoseconds time{};  // since 1970, when it ended
  std::optional<double> epoch{}, loss{}, grad_norm{}, learning_rate{};
  std::optional<std::chrono::nanoseconds> duration{};
  std::uint64_t tokens = 0, samples = 0;  // 0: not known
  std::optional<MeasuredFlop> flop{};
  std::optional<GenerationUse> generation{};  // where a period of it ended with this step
};

struct StepMetric {
  std::string_view name;  // one of step_metric_names()
  double value = 0;
};

struct StepReport {
  std::uint64_t step = 0;
  std::chrono::nanoseconds time{};
  std::optional<double> epoch{}, loss{}, grad_norm{}, learning_rate{};
  std::vector<StepMetric> metrics{};  // in the order of step_metric_names(); unknown ones left out
  std::optional<FlopCount> flop{};    // of the step
  std::optional<Source> source{};     // of `flop`
  std::optional<Calibration> calibration{};
  std::optional<std::uint64_t> calibration_age{};  // steps
  std::string note{};                              // why not the source that was asked for
  std::vector<Note> contradictions{};              // a utilization above 1, and the suspect
  std::shared_ptr<const UtilizationBasis> basis{};

  std::optional<double> value(std::string_view metric) const;
};

// Contract: basis is there.
StepReport report_step(const StepInput& input, std::shared_ptr<const UtilizationBasis> basis);

// perf/mfu … perf/samples_per_second, mfu/tokens_per_second … mfu/elapsed_time, mfu/mbu_percentage.
const std::vector<std::string_view>& step_metric_names();

// Every number of a report as scalars: training/loss …, then its metrics.
std::vector<StepMetric> scalars_of(const StepReport& report);

}  // namespace mfu
