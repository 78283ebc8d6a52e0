#include <fmt/format.h>

#include <algorithm>

#include "mfu/run.h"
#include "report/run_steps.h"

namespace mfu {

namespace {

FlopCount model_flop(const Step& step) {
  FlopCount sum;
  for (const TypedFlop& each : step.flop) sum += each.flop.model_flop;
  return sum;
}

// The peak of a step that computed in several types is the one that gives the same MFU. Types
// beyond those a record has room for ("other") are held against the peak of the most used one. No
// peak where one of the types has none.
void set_peak(UtilizationBasis& basis, const Step& step, const RunQuestion& question,
              const Tf32& tf32) {
  std::vector<TypedFlop> ran = step.flop;
  std::stable_sort(ran.begin(), ran.end(), [](const TypedFlop& a, const TypedFlop& b) {
    return a.flop.model_flop > b.flop.model_flop;
  });
  ChosenPeak first;
  UtilizationInput input{.duration = std::chrono::seconds(1)};
  std::string types;
  for (const TypedFlop& each : ran) {
    if (each.flop.model_flop == FlopCount(0)) break;
    ChosenPeak peak = choose_peak(peak_question(question), each.type, tf32);
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

}  // namespace

std::vector<StepReport> report_run_steps(const RunRecord& record, const RunQuestion& question) {
  Tf32 tf32 = tf32_of(record);
  std::vector<StepReport> reports;
  for (const ProcessRecord& process : record.processes) {
    auto shared = std::make_shared<const UtilizationBasis>(UtilizationBasis{.rank = process.rank});
    for (const Step* step : training_steps(process)) {
      StepInput input{.step = step->index, .time = step->end + process.realtime_offset};
      if (step->duration().count() > 0) input.duration = step->duration();
      if (counts_tokens(record, process)) input.tokens = step->tokens;
      input.samples = step->samples;
      FlopCount flop = model_flop(*step);
      if (flop > FlopCount(0)) input.flop = MeasuredFlop{.flop = flop, .source = Source::counted};
      UtilizationBasis basis{.rank = process.rank};
      set_peak(basis, *step, question, tf32);
      if (!same(basis, *shared)) shared = std::make_shared<const UtilizationBasis>(basis);
      reports.push_back(report_step(input, shared));
    }
  }
  return reports;
}

}  // namespace mfu
