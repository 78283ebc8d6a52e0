#include "report/run_host_advice.h"

#include <algorithm>

#include "attribution/findings.h"

namespace mfu {

namespace {

struct HostRule {
  HostPart part;
  double from;  // share of step time from which it is worth a word
  const char* code;
  const char* fix;
};

constexpr HostRule kHostRules[] = {
    {HostPart::preempted, 0.10, "host_preempted", "cores_of_its_own"},
    {HostPart::sleep, 0.20, "host_sleeps", "look_where_it_sleeps"},
    {HostPart::io, 0.10, "host_files", "save_aside"},
};

}  // namespace

void add_host_findings(RunReport& report, std::chrono::nanoseconds step_time) {
  std::vector<Finding>& all = report.findings;
  bool found = false;
  for (const HostRule& rule : kHostRules) {
    const auto& share = report.host[static_cast<std::size_t>(rule.part)];
    if (!share || share->value < rule.from) continue;
    Finding& finding = all.emplace_back();
    finding.code = rule.code;
    finding.cause = Cause::host;
    finding.values = {{"of", "step_time"}, {"fraction", share->value}};
    finding.fixes = {rule.fix};
    finding.gain_ceiling_ns =
        static_cast<std::int64_t>(share->value * static_cast<double>(step_time.count()));
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
