#include <algorithm>
#include <map>

#include "mfu/steps.h"
#include "report/run_steps.h"

namespace mfu {

namespace {

constexpr const char* kPartNames[] = {"data_wait",  "optimizer",  "communication",
                                      "checkpoint", "validation", "forward_backward_rest"};
constexpr std::size_t kParts = kStepPhases + 1;  // the last: the rest

// One step of one rank.
struct OneStep {
  double duration_ns = 0;
  std::optional<double> tokens, samples, flop, peak_ns;
  double part_ns[kParts] = {};
};
using Series = std::vector<OneStep>;  // of one rank, in order
using ByRank = std::map<std::uint64_t, Series>;

OneStep one_step(const StepReport& report) {
  OneStep step;
  double seconds = report.value("perf/step_time").value_or(0);
  step.duration_ns = seconds * 1e9;
  auto total = [&](const char* rate) -> std::optional<double> {
    std::optional<double> per_s = report.value(rate);
    return per_s ? std::optional(*per_s * seconds) : std::nullopt;
  };
  step.tokens = total("perf/tokens_per_second");
  step.samples = total("perf/samples_per_second");
  if (report.flop) step.flop = report.flop->to_double();
  if (auto mfu = report.value("perf/mfu"); mfu && report.flop)
    step.peak_ns = *mfu * step.duration_ns;
  return step;
}

Failure no_steps() {
  return fail(ErrorCode::unsupported,
              "has no steps to compare; --step-marker of mfu run names them where there is no "
              "optimizer");
}

// The value of each step, summed over all ranks that know it. (In a pipeline only the first stage
// has tokens.) Empty if no rank knows it, or if one knows it only in some steps.
std::vector<double> summed(const ByRank& ranks, std::size_t count, std::uint64_t warmup,
                           std::optional<double> OneStep::* member) {
  std::vector<double> sums(count);
  bool any = false;
  for (const auto& [rank, series] : ranks) {
    auto first = series.begin() + static_cast<std::ptrdiff_t>(warmup);
    auto knows = [&](const OneStep& step) { return (step.*member).has_value(); };
    auto known = std::count_if(first, first + static_cast<std::ptrdiff_t>(count), knows);
    if (known == 0) continue;
    if (static_cast<std::size_t>(known) != count) return {};
    any = true;
    for (std::size_t i = 0; i < count; ++i) sums[i] += *(series[warmup + i].*member);
  }
  return any ? sums : std::vector<double>();
}

// Ranks in lockstep take each step together, so the i-th step of all ranks is one step. `devices`
// is how many devices they ran on; ranks that share a processor share one.
Result<ComparedSteps> combined(const ByRank& ranks, double devices) {
  ComparedSteps steps;
  std::size_t shortest = ~std::size_t{0};
  for (const auto& [rank, series] : ranks) {
    std::vector<std::chrono::nanoseconds> durations;
    for (const OneStep& step : series) {
      durations.emplace_back(static_cast<std::int64_t>(step.duration_ns));
    }
    steps.warmup = std::max(steps.warmup, warmup_of(durations));
    shortest = std::min(shortest, series.size());
  }
  steps.warmup = std::min<std::uint64_t>(steps.warmup, shortest == 0 ? 0 : shortest - 1);
  if (ranks.empty() || shortest == 0) return no_steps();
  std::size_t count = shortest - steps.warmup;
  double all = static_cast<double>(ranks.size());
  steps.ranks = ranks.size();
  steps.duration_ns.resize(count);
  for (const auto& [rank, series] : ranks) {
    for (std::size_t i = 0; i < count; ++i) {
      steps.duration_ns[i] += series[steps.warmup + i].duration_ns / all;
    }
  }
  steps.tokens = summed(ranks, count, steps.warmup, &OneStep::tokens);
  steps.samples = summed(ranks, count, steps.warmup, &OneStep::samples);
  steps.flop = summed(ranks, count, steps.warmup, &OneStep::flop);
  // A monitor may measure only every tenth step. The steps that have an MFU give the mean.
  for (std::size_t i = 0; i < count; ++i) {
    double needed = 0;
    bool known = true;
    for (const auto& [rank, series] : ranks) {
      const std::optional<double>& peak_ns = series[steps.warmup + i].peak_ns;
      known = known && peak_ns;
      needed += peak_ns.value_or(0);
    }
    if (!known) continue;
    steps.peak_ns.push_back(needed);
    steps.busy_ns.push_back(steps.duration_ns[i] * devices);
  }
  return steps;
}

void add_parts(const ByRank& ranks, ComparedSteps& steps) {
  double all = static_cast<double>(ranks.size());
  for (std::size_t part = 0; part < kParts; ++part) {
    steps.part_names.emplace_back(kPartNames[part]);
    std::vector<double>& each = steps.part_ns.emplace_back(steps.duration_ns.size());
    for (const auto& [rank, series] : ranks) {
      for (std::size_t i = 0; i < each.size(); ++i) {
        each[i] += series[steps.warmup + i].part_ns[part] / all;
      }
    }
  }
}

}  // namespace

Result<ComparedSteps> compared_steps(const RunRecord& record, const RunQuestion& question) {
  std::vector<StepReport> reports = report_run_steps(record, question);
  ByRank ranks;
  std::size_t at = 0;
  std::uint64_t unranked = std::uint64_t{1} << 32;
  for (const ProcessRecord& process : record.processes) {
    // A worker that was started again goes on with its rank's steps.
    std::uint64_t key = process.rank ? *process.rank : unranked++;
    for (const Step* step : training_steps(process)) {
      OneStep one = one_step(reports[at++]);
      one.duration_ns = static_cast<double>(step->duration().count());
      double rest = one.duration_ns;
      for (std::size_t part = 0; part < kStepPhases; ++part) {
        one.part_ns[part] = static_cast<double>(step->phase[part].count());
        rest -= one.part_ns[part];
      }
      one.part_ns[kStepPhases] = rest;
      ranks[key].push_back(one);
    }
  }
  ComparedSteps steps = MFU_TRY(combined(ranks, static_cast<double>(question.device.devices)));
  add_parts(ranks, steps);
  return steps;
}

Result<ComparedSteps> compared_steps(const std::vector<StepReport>& reports) {
  ByRank ranks;
  for (const StepReport& report : reports) {
    if (!report.value("perf/step_time")) continue;
    std::uint64_t rank = report.basis->rank.value_or(0);
    ranks[rank].push_back(one_step(report));
  }
  return combined(ranks, static_cast<double>(ranks.size()));
}

}  // namespace mfu
