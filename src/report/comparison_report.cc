#include <algorithm>
#include <cmath>

#include "mfu/steps.h"

namespace mfu {

namespace {

// A smaller change is not worth reporting. This also stands for the noise between two runs of the
// same program, which a single run cannot show.
constexpr double kWorthFraction = 0.01;

struct Cost {
  std::string unit;
  Estimate before, after;  // time of one unit of work
};

bool known_in_both(const std::vector<double>& a, const std::vector<double>& b) {
  auto positive = [](const std::vector<double>& values) {
    return !values.empty() &&
           std::all_of(values.begin(), values.end(), [](double v) { return v > 0; });
  };
  return positive(a) && positive(b);
}

// If both sides know their tokens, the time of one token is compared, because a step may do more
// work on one side.
Cost cost_of(const ComparedSteps& before, const ComparedSteps& after) {
  auto by = [&](std::string unit, const auto& a, const auto& b) {
    return Cost{std::move(unit), ratio_of_sums(before.duration_ns, a),
                ratio_of_sums(after.duration_ns, b)};
  };
  if (known_in_both(before.tokens, after.tokens)) return by("token", before.tokens, after.tokens);
  if (known_in_both(before.samples, after.samples)) {
    return by("sample", before.samples, after.samples);
  }
  return {"step", mean_of(before.duration_ns), mean_of(after.duration_ns)};
}

void judge(ComparisonReport& report, const Cost& cost, std::optional<double> fail_over) {
  report.unit = cost.unit;
  report.fail_over = fail_over;
  if (!(cost.before.value > 0) || !(cost.after.value > 0)) return;
  Quotient speed = quotient_of(cost.before, cost.after);
  report.gain_fraction = speed.value - 1;
  bool faster = report.gain_fraction >= kWorthFraction;
  bool slower = report.slower_fraction() >= kWorthFraction;
  if (speed.range) {
    report.gain_range = Range{speed.range->low - 1, speed.range->high - 1};
    report.verdict = faster && report.gain_range->low > 0    ? Verdict::better
                     : slower && report.gain_range->high < 0 ? Verdict::worse
                                                             : Verdict::same;
  }
  // Noise alone must not exceed a threshold. If the noise is not known, the number alone decides.
  bool may_fail = !report.verdict || *report.verdict == Verdict::worse;
  report.failed = may_fail && (fail_over ? report.slower_fraction() > *fail_over
                                         : report.verdict == Verdict::worse);
}

void sort_changes(ComparisonReport& report) {
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const ComparisonRow& row = report.rows[i];
    double change = row.after_ns.value - row.before_ns.value;
    if (std::fabs(change) < kWorthFraction * report.before_ns.value) continue;
    if (!differs(row.before_ns, row.after_ns).value_or(true)) continue;
    // More time at peak means more work done. That is neither good nor bad.
    if (row.name == name_of(LedgerLine::matmul_at_peak)) continue;
    (change < 0 ? report.less : report.more).push_back(i);
  }
  auto change_of = [&](std::size_t i) {
    return std::fabs(report.rows[i].after_ns.value - report.rows[i].before_ns.value);
  };
  for (auto* list : {&report.less, &report.more}) {
    std::stable_sort(list->begin(), list->end(),
                     [&](std::size_t a, std::size_t b) { return change_of(a) > change_of(b); });
  }
}

double mean_value(const std::vector<double>& values) {
  return values.empty() ? 0 : mean_of(values).value;
}

void note_ranks(ComparisonReport& report, const ComparedSteps& before, const ComparedSteps& after) {
  if (before.ranks == after.ranks) return;
  report.notes.push_back({"ranks_differ",
                          {{"before", static_cast<std::int64_t>(before.ranks)},
                           {"after", static_cast<std::int64_t>(after.ranks)}}});
}

// Adds what the lines do not say by themselves.
void add_notes(ComparisonReport& report, const ComparedSteps& before, const ComparedSteps& after) {
  auto changed = [](double a, double b) {
    return a > 0 && b > 0 && std::fabs(b / a - 1) > kWorthFraction;
  };
  note_ranks(report, before, after);
  double tokens_before = mean_value(before.tokens), tokens_after = mean_value(after.tokens);
  if (report.unit == "token" && changed(tokens_before, tokens_after)) {
    report.notes.push_back({"tokens_differ", {{"before", tokens_before}, {"after", tokens_after}}});
  }
  double flop_before = mean_value(before.flop), flop_after = mean_value(after.flop);
  if (report.unit == "token" && tokens_before > 0 && tokens_after > 0) {
    flop_before /= tokens_before;
    flop_after /= tokens_after;
  }
  if (changed(flop_before, flop_after)) {
    report.notes.push_back(
        {"flop_differ", {{"unit", report.unit}, {"before", flop_before}, {"after", flop_after}}});
  }
  if (!report.verdict) report.notes.push_back({"too_few_steps", {}});
}

void add_rows(ComparisonReport& report, const ComparedSteps& before, const ComparedSteps& after) {
  for (std::size_t i = 0; i < before.part_names.size(); ++i) {
    auto other = std::find(after.part_names.begin(), after.part_names.end(), before.part_names[i]);
    if (other == after.part_names.end()) continue;
    auto at = static_cast<std::size_t>(other - after.part_names.begin());
    ComparisonRow row{before.part_names[i], mean_of(before.part_ns[i]), mean_of(after.part_ns[at])};
    if (report.before_ns.value > 0)
      row.before_fraction = row.before_ns.value / report.before_ns.value;
    if (report.after_ns.value > 0) row.after_fraction = row.after_ns.value / report.after_ns.value;
    report.rows.push_back(std::move(row));
  }
}

std::optional<Estimate> mfu_of(const ComparedSteps& steps) {
  if (steps.peak_ns.empty()) return std::nullopt;
  return ratio_of_sums(steps.peak_ns, steps.busy_ns);
}

std::optional<Estimate> tokens_per_s(const ComparedSteps& steps) {
  if (steps.tokens.empty()) return std::nullopt;
  Estimate rate = ratio_of_sums(steps.tokens, steps.duration_ns);
  rate.value *= 1e9;
  if (rate.error) *rate.error *= 1e9;
  return rate;
}

// The steps of a trace. If ranks have different numbers of steps, all are cut to the fewest.
ComparedSteps steps_of(const ExplainReport& report) {
  ComparedSteps steps;
  std::size_t count = report.ranks.front().found.steps.size();
  for (const RankReport& rank : report.ranks) count = std::min(count, rank.found.steps.size());
  double ranks = static_cast<double>(report.ranks.size());
  steps.ranks = report.ranks.size();
  steps.part_ns.resize(kLedgerLineCount, std::vector<double>(count));
  steps.duration_ns.resize(count);
  for (std::size_t line = 0; line < kLedgerLineCount; ++line) {
    steps.part_names.emplace_back(name_of(static_cast<LedgerLine>(line)));
  }
  for (const RankReport& rank : report.ranks) {
    for (std::size_t i = 0; i < count; ++i) {
      const StepLedger& step = rank.found.steps[i];
      steps.duration_ns[i] += static_cast<double>(step.end_ns - step.start_ns) / ranks;
      for (std::size_t line = 0; line < kLedgerLineCount; ++line) {
        steps.part_ns[line][i] +=
            static_cast<double>(step.ledger[static_cast<LedgerLine>(line)]) / ranks;
      }
    }
  }
  return steps;
}

// Compares whole windows. Each was measured once.
ComparisonReport compare_windows(const ExplainReport& before, const ExplainReport& after) {
  ComparisonReport report;
  auto share = [](const ExplainReport& of, double ns) {
    return Estimate{.value = ns / static_cast<double>(of.ranks.size())};
  };
  report.before_ns = share(before, static_cast<double>(before.duration_ns));
  report.after_ns = share(after, static_cast<double>(after.duration_ns));
  for (std::size_t i = 0; i < kLedgerLineCount; ++i) {
    report.rows.push_back({std::string(name_of(static_cast<LedgerLine>(i))),
                           share(before, static_cast<double>(before.rows[i].duration_ns)),
                           share(after, static_cast<double>(after.rows[i].duration_ns)),
                           before.rows[i].fraction, after.rows[i].fraction});
  }
  report.notes.push_back({"windows_compared", {}});
  return report;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  constexpr std::string_view kNames[] = {"better", "worse", "same"};
  return kNames[static_cast<std::size_t>(verdict)];
}

ComparisonReport report_comparison(const ComparedSteps& before, const ComparedSteps& after,
                                   std::optional<double> fail_over) {
  ComparisonReport report;
  report.by_step = true;
  report.before_ns = mean_of(before.duration_ns);
  report.after_ns = mean_of(after.duration_ns);
  report.before_mfu = mfu_of(before);
  report.after_mfu = mfu_of(after);
  report.before_tokens_per_s = tokens_per_s(before);
  report.after_tokens_per_s = tokens_per_s(after);
  add_rows(report, before, after);
  judge(report, cost_of(before, after), fail_over);
  sort_changes(report);
  add_notes(report, before, after);
  return report;
}

ComparisonReport report_comparison(const ExplainReport& before, const ExplainReport& after,
                                   std::optional<double> fail_over) {
  ComparedSteps first = steps_of(before), second = steps_of(after);
  bool by_step = !first.duration_ns.empty() && !second.duration_ns.empty();
  ComparisonReport report =
      by_step ? report_comparison(first, second, fail_over) : compare_windows(before, after);
  report.before = before.ranks.front().found.path;
  report.after = after.ranks.front().found.path;
  if (before.mfu) report.before_mfu = Estimate{.value = *before.mfu};
  if (after.mfu) report.after_mfu = Estimate{.value = *after.mfu};
  if (by_step) return report;
  judge(report, {"window", report.before_ns, report.after_ns}, fail_over);
  sort_changes(report);
  note_ranks(report, first, second);
  return report;
}

}  // namespace mfu
