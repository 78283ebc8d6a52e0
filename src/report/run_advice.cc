#include "report/run_advice.h"

#include <algorithm>

#include "attribution/findings.h"

namespace mfu {

namespace {

struct PhaseRule {
  StepPhase phase;
  double from;  // share of step time from which it is worth a word
  const char* code;
  Cause cause;
  const char* fix;
};

constexpr PhaseRule kPhaseRules[] = {
    {StepPhase::data_wait, 0.03, "data_loading", Cause::data_loading, "more_workers"},
    {StepPhase::communication, 0.10, "communication", Cause::communication,
     "overlap_communication"},
    {StepPhase::optimizer, 0.10, "optimizer", Cause::optimizer, "fused_optimizer"},
    {StepPhase::checkpoint, 0.03, "checkpoint", Cause::synchronization, "save_aside"},
    {StepPhase::validation, 0.10, "validation", Cause::validation, "validate_less"},
};

// The same rules of gain as a trace's: if a share of the time went away, the same FLOPs would be
// done in the rest.
class RunFindings {
 public:
  RunFindings(const RunReport& report, std::chrono::nanoseconds step_time)
      : report_(report), step_ns_(step_time.count()) {}

  Finding& add(const char* code, Cause cause, double share, const char* of, const char* fix) {
    Finding& finding = findings.emplace_back();
    finding.code = code;
    finding.cause = cause;
    finding.values = {{"of", of}, {"fraction", share}};
    finding.fixes = {fix};
    finding.gain_ceiling_ns = static_cast<std::int64_t>(share * static_cast<double>(step_ns_));
    std::optional<double> mfu = report_.mfu ? std::optional(report_.mfu->value) : std::nullopt;
    if (share > 0) finding.gain_ceiling_mfu = mfu_gain(mfu, step_ns_, finding.gain_ceiling_ns);
    return finding;
  }

  std::vector<Finding> findings;

 private:
  const RunReport& report_;
  std::int64_t step_ns_;
};

void add_slow_rank(const RunReport& report, RunFindings& all) {
  if (!report.slowest_rank) return;
  std::vector<std::int64_t> own;
  std::int64_t slowest = 0;
  for (const RunRankReport& each : report.by_rank) {
    if (!each.own) continue;
    own.push_back(each.own->count());
    if (each.rank == report.slowest_rank) slowest = own.back();
  }
  std::sort(own.begin(), own.end());
  std::int64_t typical = own[(own.size() - 1) / 2];
  double share = slowest > 0 ? 1 - static_cast<double>(typical) / static_cast<double>(slowest) : 0;
  Finding& finding =
      all.add("straggler", Cause::straggler, share, "step_time", "look_at_slow_rank");
  finding.values.emplace_back("rank", std::int64_t{*report.slowest_rank});
  finding.values.emplace_back("own_ns", slowest);
  finding.values.emplace_back("typical_ns", typical);
}

}  // namespace

std::vector<Finding> findings_of_run(const RunReport& report, bool tf32_possible,
                                     std::chrono::nanoseconds step_time) {
  RunFindings all(report, step_time);
  for (const PhaseRule& rule : kPhaseRules) {
    const auto& share = report.phase[static_cast<std::size_t>(rule.phase)];
    if (!share || share->value < rule.from) continue;
    all.add(rule.code, rule.cause, share->value, "step_time", rule.fix);
  }
  add_slow_rank(report, all);
  if (tf32_possible) all.add("tf32_not_allowed", Cause::precision, 0, "step_time", "allow_tf32");
  if (report.flop && report.flop->recomputed_flop > FlopCount(0)) {
    double share =
        report.flop->recomputed_flop.to_double() / report.flop->hardware_flop.to_double();
    all.add("recomputation", Cause::recomputation, share, "executed_flop", "checkpoint_less");
  }
  rank_and_cut(all.findings);
  if (all.findings.empty() && report.mfu && report.mfu->value < 0.4) {
    all.add("passes_themselves", Cause::implementation, 0, "step_time", "profile_it");
  }
  return all.findings;
}

}  // namespace mfu
