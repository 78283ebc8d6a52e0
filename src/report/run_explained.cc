#include "report/run_explained.h"

#include <algorithm>
#include <iterator>

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

// Whether the others wait in collectives for a slow rank, and not for the network. A slow rank is
// the reason if it explains half of the time.
bool is_for_slow_rank(const Finding& waits, const std::vector<Finding>& findings) {
  if (waits.cause != Cause::communication) return false;
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& each) {
    return each.code == "straggler" && 2 * each.gain_ceiling_ns >= waits.gain_ceiling_ns;
  });
}

bool is_loading(Cause cause) {
  return cause == Cause::data_loading || cause == Cause::cpu_preprocessing;
}

// The finding about the loader that the whole run gave; null if there is none.
const Finding* loading_of_run(const RunReport& report) {
  for (const Finding& each : report.findings) {
    if (is_loading(each.cause)) return &each;
  }
  return nullptr;
}

// Profiling makes operators of a CPU slower, but waiting takes as long as before. So the window's
// shares are not those of the run. Waiting keeps its time, and everything else shrinks until a step
// takes as long as the steps outside the window.
class ShareOfRun {
 public:
  ShareOfRun(const ExplainReport& explained, const RunReport& report) {
    std::uint64_t steps = 0;
    for (const RankReport& each : explained.ranks) {
      steps += each.found.window.steps;
      cpu_ = cpu_ && each.found.cpu;
    }
    if (explained.duration_ns <= 0) return;
    window_ns_ = static_cast<double>(explained.duration_ns);
    step_ns_ = window_ns_;
    if (!cpu_ || steps == 0 || !report.step) return;
    double waits = 0;
    for (const LedgerRow& row : explained.rows) {
      bool waiting = row.line == LedgerLine::idle_data || row.line == LedgerLine::idle_unknown ||
                     row.line == LedgerLine::exposed_communication_wait ||
                     row.line == LedgerLine::exposed_communication_transfer;
      if (waiting) waits += static_cast<double>(row.duration_ns);
    }
    double run_ns = static_cast<double>(report.step->median.count()) * static_cast<double>(steps);
    if (run_ns <= waits || run_ns >= window_ns_) return;
    step_ns_ = run_ns;
    shrinks_ = (run_ns - waits) / (window_ns_ - waits);
  }

  bool cpu() const { return cpu_; }
  double operator()(const Finding& found) const {
    bool waits = is_loading(found.cause) || found.cause == Cause::communication ||
                 found.cause == Cause::unknown || found.cause == Cause::straggler;
    double ns = static_cast<double>(found.gain_ceiling_ns);
    return std::min(kMost, (waits ? ns : ns * shrinks_) / step_ns_);
  }

 private:
  static constexpr double kMost = 0.99;
  bool cpu_ = true;  // the CPU is the device, on all ranks
  double window_ns_ = 1, step_ns_ = 1, shrinks_ = 1;
};

// Turns a finding of the window into one about all steps. A loader may be slow in only a few steps,
// so what the whole run saw of it counts more than three profiled steps.
Finding of_run(const Finding& found, const ShareOfRun& share_of, const RunReport& report) {
  Finding finding = found;
  if (report.step_time.count() <= 0) return finding;
  auto step_ns = static_cast<double>(report.step_time.count());
  finding.gain_ceiling_ns = static_cast<std::int64_t>(share_of(found) * step_ns);
  const Finding* loading = is_loading(found.cause) ? loading_of_run(report) : nullptr;
  if (loading != nullptr) finding.gain_ceiling_ns = loading->gain_ceiling_ns;
  if (report.mfu) {
    finding.gain_ceiling_mfu =
        mfu_gain(report.mfu->value, report.step_time.count(), finding.gain_ceiling_ns);
  }
  return finding;
}

// Workers that compute take cores from the threads that train. That time is added to the loader's.
void add_crowd_to_loader(const RunReport& report, std::vector<Finding>& findings) {
  auto loader = std::find_if(findings.begin(), findings.end(), [](const Finding& each) {
    return each.code == "preprocessing" &&
           each.fixes == std::vector<std::string>{"preprocess_once"};
  });
  auto crowd = std::find_if(findings.begin(), findings.end(),
                            [](const Finding& each) { return each.code == "host_crowded"; });
  if (loader == findings.end() || crowd == findings.end()) return;
  loader->gain_ceiling_ns += crowd->gain_ceiling_ns;
  if (report.mfu) {
    loader->gain_ceiling_mfu =
        mfu_gain(report.mfu->value, report.step_time.count(), loader->gain_ceiling_ns);
  }
  std::move(crowd->evidence.begin(), crowd->evidence.end(), std::back_inserter(loader->evidence));
  loader->evidence.push_back({"cores_waited_for", crowd->values});
  loader->fixes.emplace_back("fewer_at_once");
  findings.erase(crowd);
}

// The run knows the optimizer's class, so it knows better what to write than the window does.
// Updates outside of torch.optim show only in the window.
void take_fix_of_optimizer(const RunReport& report, Finding& finding) {
  if (finding.code != "optimizer") return;
  bool by_hand = std::any_of(finding.evidence.begin(), finding.evidence.end(),
                             [](const auto& each) { return each.code == "updates_by_hand"; });
  if (by_hand) return;
  for (const Finding& each : report.findings) {
    if (each.code != "optimizer") continue;
    finding.fixes = each.fixes;
    finding.evidence.insert(finding.evidence.end(), each.evidence.begin(), each.evidence.end());
  }
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
  for (const RankReport& each : explained.ranks) {
    const std::optional<ProfiledWindow>& counted = each.found.counted;
    if (!each.found.cpu || !counted || counted->wall.count() <= 0) continue;
    files.cores_used +=
        static_cast<double>(counted->cpu.count()) / static_cast<double>(counted->wall.count());
    files.cores_available = std::max(files.cores_available, counted->cores_available);
    files.threads += counted->threads;
  }
  files.findings = explained.findings;
  for (const LedgerRow& row : explained.rows) {
    files.ledger.push_back({row.line, row.duration_ns, row.fraction});
  }
  ShareOfRun share_of(explained, report);
  std::vector<Finding> merged;
  // The compiler works in its own processes, and the thread waits for them.
  if (has_code(explained.findings, "compiles_again")) {
    std::erase_if(report.findings, [](const Finding& each) {
      return each.code == "host_sleeps" || each.code == "host_waits";
    });
  }
  bool sleeps = has_code(report.findings, "host_sleeps") || has_code(report.findings, "host_waits");
  for (const Finding& each : explained.findings) {
    // A slow rank is the reason why the others wait, and a sleeping thread is the reason why
    // nothing runs.
    if (sleeps && (each.cause == Cause::unknown || each.cause == Cause::host)) continue;
    Finding finding = of_run(each, share_of, report);
    take_fix_of_optimizer(report, finding);
    if (!is_for_slow_rank(finding, report.findings)) merged.push_back(std::move(finding));
  }
  for (const Finding& each : report.findings) {
    // The window knows more about these: which operators they are, and whether something can be
    // won.
    if (each.code == "passes_themselves") continue;
    if (each.code == "optimizer" && share_of.cpu()) continue;
    bool told = has_cause(merged, each.cause) ||
                (is_loading(each.cause) && (has_cause(merged, Cause::data_loading) ||
                                            has_cause(merged, Cause::cpu_preprocessing)));
    if (is_for_slow_rank(each, report.findings)) continue;
    if (!told) merged.push_back(each);
  }
  add_crowd_to_loader(report, merged);
  rank_and_cut(merged);
  report.findings = std::move(merged);
  report.explain = std::move(files);
}

}  // namespace mfu
