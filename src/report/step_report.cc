#include "mfu/steps.h"

#include <iterator>

#include "mfu/utilization.h"

namespace mfu {

namespace {

double seconds(std::chrono::nanoseconds duration) {
  return static_cast<double>(duration.count()) / 1e9;
}

void add_mfu(StepReport& report, const StepInput& input) {
  const UtilizationBasis& basis = *report.basis;
  if (input.flop && input.duration && basis.peak) {
    Result<Utilization> used =
        utilization_of({.work = {{.model_flop = input.flop->flop, .peak = basis.peak}},
                        .duration = *input.duration,
                        .devices = basis.devices});
    if (used.has_value()) {
      report.metrics.push_back({"perf/mfu", used->mfu.value});
      report.metrics.push_back({"perf/mfu_percent", used->mfu.value * 100});
      report.contradictions = used->contradictions;
      return;
    }
  }
  if (!basis.zero_where_unmeasured) return;
  report.metrics.push_back({"perf/mfu", 0});
  report.metrics.push_back({"perf/mfu_percent", 0});
}

void add_speed(StepReport& report, const StepInput& input) {
  if (!input.duration) return;
  double time = seconds(*input.duration);
  report.metrics.push_back({"perf/step_time", time});
  report.metrics.push_back({"perf/steps_per_second", 1 / time});
  if (input.tokens != 0) {
    report.metrics.push_back({"perf/tokens_per_second", static_cast<double>(input.tokens) / time});
  }
  if (input.samples != 0) {
    report.metrics.push_back(
        {"perf/samples_per_second", static_cast<double>(input.samples) / time});
  }
}

void add_generation(StepReport& report, const GenerationUse& use) {
  const UtilizationBasis& basis = *report.basis;
  report.metrics.push_back({"mfu/tokens_per_second", use.tokens_per_s});
  if (use.flop_per_token) report.metrics.push_back({"mfu/flops_per_token", *use.flop_per_token});
  std::optional<Utilization> used;
  if (use.flop && basis.peak) {
    Result<Utilization> found =
        utilization_of({.work = {{.model_flop = *use.flop, .peak = basis.peak}},
                        .moved = use.moved,
                        .duration = use.elapsed,
                        .devices = basis.devices,
                        .bandwidth = basis.bandwidth});
    if (found.has_value()) used = *found;
  }
  if (used) report.metrics.push_back({"mfu/mfu_percentage", used->mfu.value * 100});
  report.metrics.push_back({"mfu/total_tokens_generated", static_cast<double>(use.tokens)});
  report.metrics.push_back({"mfu/elapsed_time", seconds(use.elapsed)});
  if (!used) return;
  if (used->mbu) report.metrics.push_back({"mfu/mbu_percentage", used->mbu->value * 100});
  report.contradictions.insert(report.contradictions.end(), used->contradictions.begin(),
                               used->contradictions.end());
}

constexpr RunPhase kShown[] = {RunPhase::prefill, RunPhase::decode, RunPhase::train,
                               RunPhase::forward, RunPhase::validation};
constexpr std::string_view kShownNames[] = {"prefill", "decode", "train", "forward", "validation"};
constexpr std::string_view kOfPhase[] = {"tokens", "flop", "time", "mfu_percentage",
                                         "mbu_percentage"};

void add_phase(StepReport& report, std::size_t place, const PhaseDone& sum) {
  const UtilizationBasis& basis = *report.basis;
  const std::string_view* names = &phase_metric_names()[place * std::size(kOfPhase)];
  report.metrics.push_back({names[0], static_cast<double>(sum.tokens)});
  report.metrics.push_back({names[1], sum.flop.to_double()});
  report.metrics.push_back({names[2], seconds(sum.time)});
  if (!basis.peak || sum.time.count() <= 0) return;
  Result<Utilization> used = utilization_of({.work = {{.model_flop = sum.flop, .peak = basis.peak}},
                                             .moved = sum.moved,
                                             .duration = sum.time,
                                             .devices = basis.devices,
                                             .bandwidth = basis.bandwidth});
  if (!used.has_value()) return;
  report.metrics.push_back({names[3], used->mfu.value * 100});
  if (used->mbu) report.metrics.push_back({names[4], used->mbu->value * 100});
  report.contradictions.insert(report.contradictions.end(), used->contradictions.begin(),
                               used->contradictions.end());
}

}  // namespace

const std::vector<std::string_view>& phase_metric_names() {
  static const std::vector<std::string> kTexts = [] {
    std::vector<std::string> texts;
    for (std::string_view phase : kShownNames) {
      for (std::string_view metric : kOfPhase) {
        texts.push_back("mfu/" + std::string(phase) + "/" + std::string(metric));
      }
    }
    return texts;
  }();
  static const std::vector<std::string_view> kNames(kTexts.begin(), kTexts.end());
  return kNames;
}

std::optional<double> StepReport::value(std::string_view metric) const {
  for (const StepMetric& each : metrics) {
    if (each.name == metric) return each.value;
  }
  return std::nullopt;
}

StepReport report_step(const StepInput& input, std::shared_ptr<const UtilizationBasis> basis) {
  MFU_ASSERT(basis != nullptr);
  StepReport report{.step = input.step,
                    .time = input.time,
                    .epoch = input.epoch,
                    .loss = input.loss,
                    .grad_norm = input.grad_norm,
                    .learning_rate = input.learning_rate,
                    .basis = std::move(basis)};
  if (input.flop) {
    report.flop = input.flop->flop;
    report.source = input.flop->source;
    report.calibration = input.flop->calibration;
    report.calibration_age = input.flop->calibration_age;
    report.note = input.flop->note;
  }
  add_mfu(report, input);
  add_speed(report, input);
  if (input.generation) add_generation(report, *input.generation);
  for (std::size_t i = 0; i < std::size(kShown); ++i) {
    for (const PhaseDone& each : input.phases) {
      if (each.phase == kShown[i]) add_phase(report, i, each);
    }
  }
  return report;
}

const std::vector<std::string_view>& step_metric_names() {
  static const std::vector<std::string_view> kNames = {
      "perf/mfu",
      "perf/mfu_percent",
      "perf/step_time",
      "perf/steps_per_second",
      "perf/tokens_per_second",
      "perf/samples_per_second",
      "mfu/tokens_per_second",
      "mfu/flops_per_token",
      "mfu/mfu_percentage",
      "mfu/total_tokens_generated",
      "mfu/elapsed_time",
      "mfu/mbu_percentage",
  };
  return kNames;
}

std::vector<StepMetric> scalars_of(const StepReport& report) {
  std::vector<StepMetric> scalars;
  auto add = [&](std::string_view name, const std::optional<double>& value) {
    if (value) scalars.push_back({name, *value});
  };
  add("training/epoch", report.epoch);
  add("training/loss", report.loss);
  add("training/grad_norm", report.grad_norm);
  add("training/learning_rate", report.learning_rate);
  scalars.insert(scalars.end(), report.metrics.begin(), report.metrics.end());
  return scalars;
}

}  // namespace mfu
