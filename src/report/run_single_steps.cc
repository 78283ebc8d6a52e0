#include <fmt/format.h>

#include <algorithm>

#include "mfu/run.h"
#include "mfu/steps.h"
#include "report/run_devices.h"

namespace mfu {

namespace {

FlopCount model_flop(const Step& step) {
  FlopCount sum;
  for (const TypedFlop& each : step.flop) sum += each.flop.model_flop;
  return sum;
}

// The part of a step that ran on the devices that count.
Step counted_part(const Step& step, const std::vector<DeviceUse>& uses, bool accelerators) {
  if (!accelerators || uses.size() == 1) return step;
  Step part = step;
  for (TypedFlop& each : part.flop) {
    CountedFlop sum;
    for (const auto& [key, types] : shared_out({{each.type, each.flop}}, uses)) {
      auto same = [&name = key](const DeviceUse& use) { return use.key == name; };
      bool counts = std::find_if(uses.begin(), uses.end(), same)->is_accelerator();
      for (const auto& [type, flop] : types) {
        if (counts) add(sum, flop);
      }
    }
    each.flop = sum;
  }
  return part;
}

// If a step computed in several types, its peak is the one that gives the same MFU. Types that a
// record has no room for ("other") use the peak of the most used type. There is no peak if one of
// the types has none.
void set_peak(UtilizationBasis& basis, const Step& step, const RunQuestion& question,
              const Tf32& tf32, const std::string& key) {
  std::vector<TypedFlop> ran = step.flop;
  std::stable_sort(ran.begin(), ran.end(), [](const TypedFlop& a, const TypedFlop& b) {
    return a.flop.model_flop > b.flop.model_flop;
  });
  ChosenPeak first;
  UtilizationInput input{.duration = std::chrono::seconds(1)};
  std::string types;
  for (const TypedFlop& each : ran) {
    if (each.flop.model_flop == FlopCount(0)) break;
    ChosenPeak peak = choose_peak(peak_question(question, key), each.type, tf32);
    if (!peak.rate && each.type == "other") peak = first;
    if (input.work.empty()) {
      first = peak;
      basis.precision = question.precision ? question.precision : parse_precision(each.type);
    }
    input.work.push_back({.model_flop = each.flop.model_flop, .peak = peak.rate});
    types += (types.empty() ? "" : ", ") + each.type;
  }
  Result<Utilization> used = utilization_of(input);
  if (!used.has_value() || !used->complete) return;
  basis.peak = used->peak;
  basis.peak_source = first.source;
  if (input.work.size() > 1 && !question.peak) {
    basis.peak_source += fmt::format(" ({}, each by its share)", types);
  }
}

bool same(const UtilizationBasis& a, const UtilizationBasis& b) {
  auto rate = [](const UtilizationBasis& basis) { return basis.peak ? basis.peak->per_s : 0; };
  return rate(a) == rate(b) && a.precision == b.precision && a.peak_source == b.peak_source;
}

// Makes a report of each step of one run.
class StepReporter {
 public:
  StepReporter(const RunRecord& record, const RunQuestion& question)
      : record_(record),
        question_(question),
        tf32_(tf32_of(record)),
        accelerators_(uses_accelerators(record)) {}

  // Empty if it is not a training step.
  std::optional<StepReport> report(const ProcessRecord& process, const Step& whole) {
    if (whole.kind == Step::Kind::validation) return std::nullopt;
    if (&process != last_) {
      last_ = &process;
      counts_tokens_ = counts_tokens(record_, process);
      uses_ = uses_of(process);
      basis_ = std::make_shared<const UtilizationBasis>(UtilizationBasis{.rank = process.rank});
    }
    Step step = counted_part(whole, uses_, accelerators_);
    StepInput input{.step = step.index, .time = step.end + process.realtime_offset};
    if (step.duration().count() > 0) input.duration = step.duration();
    if (counts_tokens_) input.tokens = step.tokens;
    input.samples = step.samples;
    FlopCount flop = model_flop(step);
    if (flop > FlopCount(0)) input.flop = MeasuredFlop{.flop = flop, .source = Source::counted};
    auto counts = [&](const DeviceUse& use) { return !accelerators_ || use.is_accelerator(); };
    auto devices = static_cast<std::uint64_t>(std::count_if(uses_.begin(), uses_.end(), counts));
    UtilizationBasis basis{.devices = std::max<std::uint64_t>(devices, 1), .rank = process.rank};
    set_peak(basis, step, question_, tf32_, uses_.front().key);
    if (!same(basis, *basis_)) basis_ = std::make_shared<const UtilizationBasis>(basis);
    return report_step(input, basis_);
  }

 private:
  const RunRecord& record_;
  const RunQuestion& question_;
  Tf32 tf32_;
  bool accelerators_;
  std::vector<DeviceUse> uses_;
  const ProcessRecord* last_ = nullptr;
  bool counts_tokens_ = false;
  std::shared_ptr<const UtilizationBasis> basis_;
};

}  // namespace

std::vector<StepReport> report_run_steps(const RunRecord& record, const RunQuestion& question) {
  StepReporter reporter(record, question);
  std::vector<StepReport> reports;
  for (const ProcessRecord& process : record.processes) {
    for (const Step& step : process.steps) {
      if (auto report = reporter.report(process, step)) reports.push_back(std::move(*report));
    }
  }
  return reports;
}

Result<void> report_run_steps(
    const RunSteps& run, const RunQuestion& question,
    const std::function<Result<void>(std::span<const StepReport>)>& take) {
  constexpr std::size_t kAtOnce = 1024;
  StepReporter reporter(run.record, question);
  std::vector<StepReport> reports;
  MFU_TRY(run.read([&](std::size_t process, const Step& step) -> Result<void> {
    if (auto report = reporter.report(run.record.processes[process], step)) {
      reports.push_back(std::move(*report));
    }
    if (reports.size() < kAtOnce) return {};
    Result<void> taken = take(reports);
    reports.clear();
    return taken;
  }));
  return reports.empty() ? Result<void>() : take(reports);
}

}  // namespace mfu
