#include "report/run_steps.h"

#include <algorithm>
#include <cmath>

#include "report/run_devices.h"

namespace mfu {

namespace {

using std::chrono::nanoseconds;

// Contract: sorted, not empty.
nanoseconds nearest_rank(const std::vector<nanoseconds>& sorted, double share) {
  auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

nanoseconds median_of(const std::vector<nanoseconds>& sorted) {
  std::size_t half = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return sorted[half];
  return sorted[half - 1] + (sorted[half] - sorted[half - 1]) / 2;
}

}  // namespace

std::string device_name(const ProcessRecord& process) {
  return uses_of(process).front().name;
}

Tf32 tf32_of(const RunRecord& record) {
  Tf32 tf32;
  auto is_set = [](const ProcessRecord& process, std::string_view key) {
    const std::string* allowed = process.fact(key);
    return allowed != nullptr && *allowed == "1";
  };
  FlopCount all, convolutions;
  for (const ProcessRecord& process : record.processes) {
    tf32.matmul = tf32.matmul || is_set(process, "tf32");
    tf32.convolution = tf32.convolution || is_set(process, "tf32_convolution");
    for (const OperatorTotal& total : process.totals) {
      if (total.type != "fp32") continue;
      all += total.flop.hardware_flop;
      if (total.name.find("conv") != std::string::npos) convolutions += total.flop.hardware_flop;
    }
  }
  if (all > FlopCount(0)) tf32.convolution_fraction = convolutions.to_double() / all.to_double();
  return tf32;
}

bool tf32_refused(const RunRecord& record) {
  bool told = false;
  for (const ProcessRecord& process : record.processes) {
    if (device_name(process) == "cpu") continue;
    const std::string* allowed = process.fact("tf32");
    if (allowed == nullptr || *allowed != "0") return false;
    told = true;
  }
  return told;
}

PeakQuestion peak_question(const RunQuestion& question) {
  const std::optional<Device>& device = question.device.device;
  return {.device = device ? &*device : nullptr,
          .given = question.peak,
          .precision = question.precision};
}

bool counts_tokens(const RunRecord& record, const ProcessRecord& process) {
  if (process.token_rows == 0) return false;
  if (!process.phases.empty()) return true;
  std::uint64_t rows = 0;
  for (const ProcessRecord& each : record.processes) rows = std::max(rows, each.token_rows);
  return process.token_rows == rows;
}

std::vector<const Step*> training_steps(const ProcessRecord& process) {
  std::vector<const Step*> steps;
  for (const Step& step : process.steps) {
    if (step.kind != Step::Kind::validation) steps.push_back(&step);
  }
  return steps;
}

std::uint64_t warmup_of(const std::vector<nanoseconds>& durations) {
  if (durations.size() < 2) return 0;
  std::vector<nanoseconds> sorted = durations;
  std::sort(sorted.begin(), sorted.end());
  nanoseconds long_one = 2 * median_of(sorted);
  std::uint64_t warmup = 1;
  while (warmup < durations.size() / 2 && durations[warmup] > long_one) ++warmup;
  return warmup;
}

std::uint64_t warmup_of(const std::vector<const Step*>& steps) {
  std::vector<nanoseconds> durations;
  for (const Step* step : steps) durations.push_back(step->duration());
  return warmup_of(durations);
}

nanoseconds union_of(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  nanoseconds length{0}, reached = nanoseconds::min();
  for (const auto& [start, end] : intervals) {
    if (end <= reached) continue;
    length += end - std::max(start, reached);
    reached = end;
  }
  return length;
}

std::optional<StepTimes> times_of(std::vector<nanoseconds> durations) {
  if (durations.empty()) return std::nullopt;
  std::sort(durations.begin(), durations.end());
  return StepTimes{median_of(durations), nearest_rank(durations, 0.1), nearest_rank(durations, 0.9),
                   nearest_rank(durations, 0.99)};
}

}  // namespace mfu
