#include "report/run_host_advice.h"

#include <algorithm>
#include <optional>

#include "attribution/findings.h"

namespace mfu {

namespace {

struct HostRule {
  std::optional<HostPart> part;  // none: blocked, and neither by a timer nor by a file
  double from;                   // share of step time from which it is worth a word
  const char* code;
  const char* fix;
};

constexpr HostRule kHostRules[] = {
    {HostPart::preempted, 0.10, "host_preempted", "cores_of_its_own"},
    {HostPart::sleep, 0.20, "host_sleeps", "look_where_it_sleeps"},
    {HostPart::io, 0.10, "host_files", "files_aside"},
    {std::nullopt, 0.20, "host_waits", "look_where_it_waits"},
};

double share_of_rule(const RunReport& report, const RunRecord& record, const HostRule& rule) {
  if (rule.part) {
    const auto& share = report.host[static_cast<std::size_t>(*rule.part)];
    return share ? share->value : 0;
  }
  bool seen =
      std::any_of(record.processes.begin(), record.processes.end(),
                  [](const ProcessRecord& each) { return each.fact("main_thread") != nullptr; });
  if (!seen) return 0;
  // Waiting for other ranks has a line of its own.
  const auto& ranks = report.phase[static_cast<std::size_t>(StepPhase::communication)];
  double idle = report.host_idle ? report.host_idle->value : 0;
  return idle - (ranks ? ranks->value : 0);
}

}  // namespace

void add_host_findings(const RunRecord& record, std::chrono::nanoseconds step_time,
                       RunReport& report) {
  std::vector<Finding>& all = report.findings;
  bool found = false;
  for (const HostRule& rule : kHostRules) {
    double share = share_of_rule(report, record, rule);
    if (share < rule.from) continue;
    Finding& finding = all.emplace_back();
    finding.code = rule.code;
    finding.cause = Cause::host;
    finding.values = {{"of", "step_time"}, {"fraction", share}};
    finding.fixes = {rule.fix};
    finding.gain_ceiling_ns =
        static_cast<std::int64_t>(share * static_cast<double>(step_time.count()));
    std::optional<double> mfu = report.mfu ? std::optional(report.mfu->value) : std::nullopt;
    finding.gain_ceiling_mfu = mfu_gain(mfu, step_time.count(), finding.gain_ceiling_ns);
    found = true;
  }
  if (!found) return;
  // The general finding about passes goes away, because the time is elsewhere.
  std::erase_if(all, [](const Finding& each) { return each.cause == Cause::implementation; });
  std::stable_sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) {
    return a.gain_ceiling_mfu.value_or(0) > b.gain_ceiling_mfu.value_or(0);
  });
}

}  // namespace mfu
