#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mfu/report.h"

namespace mfu {

namespace {

// Below this share of the step a change is not worth a word.
constexpr double kWorthFraction = 0.01;

std::uint64_t steps_of(const ExplainReport& report) {
  std::uint64_t steps = 0;
  for (const RankReport& rank : report.ranks) {
    if (rank.found.steps.empty()) return 0;
    steps += rank.found.steps.size();
  }
  return steps;
}

void add_words(ComparisonReport& report) {
  std::vector<const ComparisonRow*> order;
  for (const ComparisonRow& row : report.rows) order.push_back(&row);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::fabs(a->after_ns - a->before_ns) > std::fabs(b->after_ns - b->before_ns);
  });
  for (const ComparisonRow* row : order) {
    double change = row->after_ns - row->before_ns;
    if (std::fabs(change) < kWorthFraction * report.before_ns) continue;
    std::string words = fmt::format("{}: {:.3f} ms → {:.3f} ms", row->name, row->before_ns * 1e-6,
                                    row->after_ns * 1e-6);
    // More time at peak is more work done, neither good nor bad.
    if (row->name == name_of(LedgerLine::matmul_at_peak)) continue;
    (change < 0 ? report.better : report.worse).push_back(std::move(words));
  }
}

void judge(ComparisonReport& report, std::optional<double> fail_over) {
  add_words(report);
  if (report.before_ns > 0) report.slower_fraction = report.after_ns / report.before_ns - 1;
  report.fail_over = fail_over;
  report.failed = fail_over && report.slower_fraction > *fail_over;
}

struct RunParts {
  double step_ns = 0;
  double fraction[kStepPhases + 1] = {};  // the last: the rest
};

Result<RunParts> parts_of(const RunReport& run, std::string_view which) {
  if (!run.step) {
    return fail(ErrorCode::unsupported,
                fmt::format("the run {} has no steps to compare; --step-marker of mfu run names "
                            "them where there is no optimizer",
                            which));
  }
  RunParts parts;
  parts.step_ns = static_cast<double>(run.step->median.count());
  double rest = 1;
  for (std::size_t i = 0; i < kStepPhases; ++i) {
    parts.fraction[i] = run.phase[i] ? run.phase[i]->value : 0;
    rest -= parts.fraction[i];
  }
  parts.fraction[kStepPhases] = std::max(rest, 0.0);
  return parts;
}

}  // namespace

ComparisonReport report_comparison(const ExplainReport& before, const ExplainReport& after,
                                   std::optional<double> fail_over) {
  ComparisonReport report;
  report.before = before.ranks.front().found.path;
  report.after = after.ranks.front().found.path;
  std::uint64_t steps_before = steps_of(before);
  std::uint64_t steps_after = steps_of(after);
  report.by_step = steps_before > 0 && steps_after > 0;
  double parts_before = static_cast<double>(report.by_step ? steps_before : before.ranks.size());
  double parts_after = static_cast<double>(report.by_step ? steps_after : after.ranks.size());
  if (!report.by_step) {
    report.notes.emplace_back(
        "steps are not marked in both: whole windows are compared, which is fair only if both did "
        "the same work");
  }
  if (before.ranks.size() != after.ranks.size()) {
    report.notes.push_back(
        fmt::format("{} ranks against {}", before.ranks.size(), after.ranks.size()));
  }
  report.before_ns = static_cast<double>(before.duration_ns) / parts_before;
  report.after_ns = static_cast<double>(after.duration_ns) / parts_after;
  report.before_mfu = before.mfu;
  report.after_mfu = after.mfu;
  for (std::size_t i = 0; i < kLedgerLineCount; ++i) {
    ComparisonRow& row = report.rows.emplace_back();
    row.name = name_of(static_cast<LedgerLine>(i));
    row.before_ns = static_cast<double>(before.rows[i].duration_ns) / parts_before;
    row.after_ns = static_cast<double>(after.rows[i].duration_ns) / parts_after;
    row.before_fraction = before.rows[i].fraction;
    row.after_fraction = after.rows[i].fraction;
  }
  judge(report, fail_over);
  return report;
}

Result<ComparisonReport> report_comparison(const RunReport& before, const RunReport& after,
                                           std::optional<double> fail_over) {
  constexpr const char* kNames[] = {"data_wait",  "optimizer",  "communication",
                                    "checkpoint", "validation", "forward_backward_rest"};
  RunParts first = MFU_TRY(parts_of(before, "before"));
  RunParts second = MFU_TRY(parts_of(after, "after"));
  ComparisonReport report;
  report.by_step = true;
  report.before_ns = first.step_ns;
  report.after_ns = second.step_ns;
  if (before.mfu) report.before_mfu = before.mfu->value;
  if (after.mfu) report.after_mfu = after.mfu->value;
  for (std::size_t i = 0; i <= kStepPhases; ++i) {
    report.rows.push_back({kNames[i], first.fraction[i] * first.step_ns,
                           second.fraction[i] * second.step_ns, first.fraction[i],
                           second.fraction[i]});
  }
  if (before.ranks != after.ranks) {
    report.notes.push_back(fmt::format("{} ranks against {}", before.ranks, after.ranks));
  }
  if (before.tokens_per_s && after.tokens_per_s) {
    report.notes.push_back(fmt::format("tokens/s: {:.6g} before, {:.6g} after",
                                       *before.tokens_per_s, *after.tokens_per_s));
  }
  judge(report, fail_over);
  return report;
}

}  // namespace mfu
