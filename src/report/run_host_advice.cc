#include "report/run_host_advice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "attribution/findings.h"

namespace mfu {

namespace {

struct HostRule {
  std::optional<HostPart> part;  // empty: blocked by something other than a timer or a file
  double from;                   // share of step time from which it is reported
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
  // Waiting for other ranks is reported separately.
  const auto& ranks = report.phase[static_cast<std::size_t>(StepPhase::communication)];
  double idle = report.host_idle ? report.host_idle->value : 0;
  return idle - (ranks ? ranks->value : 0);
}

// How many cores the processes of the run use on one machine.
struct CoresOfRun {
  double own = 0, children = 0;  // of the ranks, and of processes that they started
  std::size_t cores = 0;
  double used_fraction() const {
    return cores == 0 ? 0 : (own + children) / static_cast<double>(cores);
  }
};

// The use of the machine that the run fills most. The observer reports "own children" for each
// rank.
CoresOfRun cores_of(const RunRecord& record) {
  std::map<std::string, CoresOfRun> hosts;
  for (const ProcessRecord& each : record.processes) {
    const std::string* told = each.fact("cores_used");
    double own = 0, children = 0;
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): our own text
    if (told == nullptr || std::sscanf(told->c_str(), "%lf %lf", &own, &children) != 2) continue;
    if (!(own >= 0) || !(children >= 0)) continue;
    CoresOfRun& host = hosts[each.host];
    host.own += own;
    host.children += children;
    host.cores = std::max(host.cores, each.affinity.size());
  }
  CoresOfRun fullest;
  for (const auto& [name, host] : hosts) {
    if (host.used_fraction() > fullest.used_fraction()) fullest = host;
  }
  return fullest;
}

constexpr double kFull = 0.85;  // from here on, other processes cannot have taken much

double tenths(double value) {
  return std::round(10 * value) / 10;
}

// Decides whether the cores that a rank waited for were taken by other programs or by the run
// itself.
void tell_who_has_the_cores(const RunRecord& record, Finding& finding) {
  CoresOfRun used = cores_of(record);
  if (used.used_fraction() < kFull) return;
  finding.code = "host_crowded";
  finding.fixes = {"fewer_at_once"};
  finding.evidence.push_back({"cores_of_the_run",
                              {{"own", tenths(used.own)},
                               {"children", tenths(used.children)},
                               {"cores", static_cast<std::int64_t>(used.cores)}}});
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
    if (rule.part == HostPart::preempted) tell_who_has_the_cores(record, finding);
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
