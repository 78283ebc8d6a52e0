#include "report/run_explained.h"

#include <algorithm>

#include "attribution/findings.h"
#include "mfu/report.h"

namespace mfu {

namespace {

bool has_code(const std::vector<Finding>& findings, std::string_view code) {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& each) { return each.code == code; });
}

bool has_cause(const std::vector<Finding>& findings, Cause cause) {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& each) { return each.cause == cause; });
}

// The window's finding, told of all steps: its share is the same, what it could win is the run's.
Finding of_run(const Finding& found, const ExplainReport& explained, const RunReport& report) {
  Finding finding = found;
  if (explained.duration_ns <= 0 || report.step_time.count() <= 0) return finding;
  double share =
      static_cast<double>(found.gain_ceiling_ns) / static_cast<double>(explained.duration_ns);
  auto step_ns = static_cast<double>(report.step_time.count());
  finding.gain_ceiling_ns = static_cast<std::int64_t>(share * step_ns);
  if (finding.cause != Cause::precision && report.mfu) {
    finding.gain_ceiling_mfu =
        mfu_gain(report.mfu->value, report.step_time.count(), finding.gain_ceiling_ns);
  }
  return finding;
}

}  // namespace

void add_profiled(const RunRecord& record, RunReport& report) {
  std::uint64_t beside = 0;
  for (const ProcessRecord& process : record.processes) {
    std::uint64_t held_up = 0;
    std::vector<std::uint64_t> explained;
    for (const Step& step : process.steps) {
      if (step.explained) {
        explained.push_back(step.sequence);
      } else if (step.profiled) {
        ++held_up;
      }
    }
    beside = std::max(beside, held_up);
    if (explained.size() > report.profiled_steps.size()) report.profiled_steps = explained;
  }
  if (report.profiled_steps.empty() && beside == 0) return;
  report.notes.push_back({"profiled",
                          {{"steps", static_cast<std::int64_t>(report.profiled_steps.size())},
                           {"beside", static_cast<std::int64_t>(beside)}}});
}

void add_explanation(RunReport& report, const ExplainReport& explained, RunExplanation files) {
  files.mfu = explained.mfu;
  files.findings = explained.findings;
  for (const LedgerRow& row : explained.rows) {
    files.ledger.push_back({row.line, row.duration_ns, row.fraction});
  }
  std::vector<Finding> merged;
  bool straggler = has_code(report.findings, "straggler");
  bool sleeps = has_code(report.findings, "host_sleeps");
  for (const Finding& each : explained.findings) {
    // A slow rank is why the others wait; a sleeping thread is why nothing runs.
    if (straggler && each.cause == Cause::communication) continue;
    if (sleeps && (each.cause == Cause::unknown || each.cause == Cause::host)) continue;
    merged.push_back(of_run(each, explained, report));
  }
  for (const Finding& each : report.findings) {
    if (each.code == "passes_themselves") continue;  // the window says more
    bool loading = each.cause == Cause::data_loading || each.cause == Cause::cpu_preprocessing;
    bool told =
        has_cause(merged, each.cause) || (loading && (has_cause(merged, Cause::data_loading) ||
                                                      has_cause(merged, Cause::cpu_preprocessing)));
    if (straggler && each.cause == Cause::communication) continue;
    if (!told) merged.push_back(each);
  }
  rank_and_cut(merged);
  report.findings = std::move(merged);
  report.explain = std::move(files);
}

}  // namespace mfu
