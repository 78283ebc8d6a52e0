#include <fmt/format.h>

#include <algorithm>

#include "mfu/run.h"
#include "report/run_peak.h"
#include "report/run_steps.h"

namespace mfu {

namespace {

FlopCount model_flop(const Step& step) {
  FlopCount sum;
  for (const TypedFlop& each : step.flop) sum += each.flop.model_flop;
  return sum;
}

// The peak of a step that computed in several types is the one that gives the same MFU:
// F / peak = Σ F_type / peak_type. Types beyond those a record has room for ("other") are held
// against the peak of the most used one. No peak where one of the types has none.
void set_peak(UtilizationBasis& basis, const Step& step, const RunQuestion& question, bool tf32) {
  double flop = 0, seconds = 0;
  std::vector<TypedFlop> used = step.flop;
  std::stable_sort(used.begin(), used.end(), [](const TypedFlop& a, const TypedFlop& b) {
    return a.flop.model_flop > b.flop.model_flop;
  });
  std::optional<TypePeak> first;
  std::string types;
  for (const TypedFlop& each : used) {
    double count = each.flop.model_flop.to_double();
    if (count <= 0) break;
    std::optional<TypePeak> peak = peak_of_type(question, each.type, tf32);
    if (!peak && each.type == "other") peak = first;
    if (!peak) return;
    if (!first) {
      first = peak;
      basis.precision = question.precision ? question.precision : parse_precision(each.type);
    }
    flop += count;
    seconds += count / peak->rate.per_s;
    types += (types.empty() ? "" : ", ") + each.type;
  }
  if (!first) return;
  basis.peak = FlopRate{flop / seconds};
  basis.peak_source = question.device.name.empty()
                          ? first->source
                          : fmt::format("{}: {}", question.device.name, first->source);
  if (types.find(',') != std::string::npos && !question.peak) {
    basis.peak_source += fmt::format(" ({}, each by its share)", types);
  }
}

bool same(const UtilizationBasis& a, const UtilizationBasis& b) {
  auto rate = [](const UtilizationBasis& basis) { return basis.peak ? basis.peak->per_s : 0; };
  return rate(a) == rate(b) && a.precision == b.precision && a.peak_source == b.peak_source;
}

}  // namespace

std::vector<StepReport> report_run_steps(const RunRecord& record, const RunQuestion& question) {
  bool tf32 = uses_tf32(record);
  std::uint64_t widest = widest_table(record);
  std::vector<StepReport> reports;
  for (const ProcessRecord& process : record.processes) {
    auto shared = std::make_shared<const UtilizationBasis>(UtilizationBasis{.rank = process.rank});
    for (const Step* step : training_steps(process)) {
      StepInput input{.step = step->index, .time = step->end + process.realtime_offset};
      if (step->duration().count() > 0) input.duration = step->duration();
      if (widest > 0 && process.token_rows == widest) input.tokens = step->tokens;
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
