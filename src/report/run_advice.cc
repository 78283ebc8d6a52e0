#include "report/run_advice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "attribution/findings.h"
#include "base/text.h"
#include "report/run_steps.h"

namespace mfu {

namespace {

// Above this MFU nothing is said about the passes themselves.
constexpr double kFairMfu = 0.4;
constexpr double kRoomForWorker = 0.5;  // free part of a core that another worker needs

struct PhaseRule {
  StepPhase phase;
  double from;  // share of step time from which it is worth a word
  const char* code;
  Cause cause;
  const char* fix;
};

constexpr PhaseRule kPhaseRules[] = {
    {StepPhase::communication, 0.10, "communication", Cause::communication,
     "overlap_communication"},
    {StepPhase::checkpoint, 0.03, "checkpoint", Cause::synchronization, "save_aside"},
    {StepPhase::validation, 0.10, "validation", Cause::validation, "validate_less"},
};

// Gains are computed as for a trace: if a share of the time vanished, the same FLOPs would be done
// in the rest.
class RunFindings {
 public:
  explicit RunFindings(const RunReport& report) : report_(report) {}

  Finding& add(const char* code, Cause cause, double share, const char* of, const char* fix) {
    Finding& finding = findings.emplace_back();
    finding.code = code;
    finding.cause = cause;
    finding.values = {{"of", of}, {"fraction", share}};
    finding.fixes = {fix};
    std::int64_t step_ns = report_.step_time.count();
    finding.gain_ceiling_ns = static_cast<std::int64_t>(share * static_cast<double>(step_ns));
    std::optional<double> mfu = report_.mfu ? std::optional(report_.mfu->value) : std::nullopt;
    if (share > 0) finding.gain_ceiling_mfu = mfu_gain(mfu, step_ns, finding.gain_ceiling_ns);
    return finding;
  }

  std::vector<Finding> findings;

 private:
  const RunReport& report_;
};

double share_of(const RunReport& report, StepPhase phase) {
  const auto& share = report.phase[static_cast<std::size_t>(phase)];
  return share ? share->value : 0;
}

double host_share(const RunReport& report, HostPart part) {
  const auto& share = report.host[static_cast<std::size_t>(part)];
  return share ? share->value : 0;
}

std::uint64_t number_fact(const ProcessRecord& process, std::string_view key) {
  const std::string* said = process.fact(key);
  return said == nullptr ? 0 : parse_count(*said).value_or(0);
}

// The cores that the training processes of one machine use, and those for which the processes that
// they started (loader workers) have work.
struct Wanted {
  double own = 0, children = 0;
  std::size_t cores = 0;
  bool has_room() const { return own + children + kRoomForWorker <= static_cast<double>(cores); }
};

// What the loaders of all training processes did.
struct Loaders {
  bool in_process = false;
  std::uint64_t loading_ns = 0, cpu_ns = 0;
  double busiest_worker = 0;  // part of the time in which it computed or waited for a core
  Wanted wanted;              // on the machine whose workers want most
  bool workers_compute() const { return !in_process && busiest_worker > 0.5; }
  bool works() const { return 2 * cpu_ns > loading_ns || workers_compute(); }
};

// Two numbers of a fact; zeros if it is not there.
std::pair<double, double> pair_fact(const ProcessRecord& process, std::string_view key) {
  const std::string* said = process.fact(key);
  double first = 0, second = 0;
  // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): our own text
  if (said == nullptr || std::sscanf(said->c_str(), "%lf %lf", &first, &second) != 2) return {};
  if (!(first >= 0) || !(second >= 0)) return {};
  return {first, second};
}

Loaders loaders_of(const RunRecord& record) {
  Loaders loaders;
  std::map<std::string, Wanted> hosts;
  for (const ProcessRecord& each : record.processes) {
    const std::string* said = each.fact("loader");
    loaders.in_process = loaders.in_process || (said != nullptr && *said == "in_process");
    loaders.loading_ns += number_fact(each, "loader_ns");
    loaders.cpu_ns += number_fact(each, "loader_cpu_ns");
    auto [ready, busiest] = pair_fact(each, "children_ready");
    loaders.busiest_worker = std::max(loaders.busiest_worker, busiest);
    Wanted& host = hosts[each.host];
    host.own += pair_fact(each, "cores_used").first;
    host.children += ready;
    host.cores = std::max(host.cores, each.affinity.size());
  }
  for (const auto& [name, host] : hosts) {
    if (host.children > loaders.wanted.children) loaders.wanted = host;
  }
  return loaders;
}

void add_loading(const RunRecord& record, const RunReport& report, RunFindings& all) {
  double share = share_of(report, StepPhase::data_wait);
  if (share < 0.03) return;
  Loaders loaders = loaders_of(record);
  bool works = loaders.works();
  bool computing_workers = loaders.workers_compute();
  const char* fix = computing_workers
                        ? (loaders.wanted.has_room() ? "more_workers" : "preprocess_once")
                    : works              ? "preprocess_offline"
                    : loaders.in_process ? "start_workers"
                                         : "more_workers";
  Finding& finding =
      works ? all.add("preprocessing", Cause::cpu_preprocessing, share, "step_time", fix)
            : all.add("data_loading", Cause::data_loading, share, "step_time", fix);
  if (works) finding.evidence.push_back({"loader_works", {}});
  if (computing_workers) {
    finding.evidence.push_back({"workers_want_cores",
                                {{"wanted", std::round(10 * loaders.wanted.children) / 10},
                                 {"cores", static_cast<std::int64_t>(loaders.wanted.cores)}}});
  }
  if (loaders.in_process) {
    finding.evidence.push_back({"loader_in_process", {}});
    if (works) finding.fixes.emplace_back("start_workers");
  }
}

void add_optimizer(const RunRecord& record, const RunReport& report, RunFindings& all) {
  double share = share_of(report, StepPhase::optimizer);
  if (share < 0.10) return;
  for (const ProcessRecord& each : record.processes) {
    const std::string* way = each.fact("optimizer_way");
    if (each.steps.empty() || way == nullptr) continue;
    if (*way == "fused") return;  // nothing is left to win by walking less
    bool fuses = number_fact(each, "optimizer_can_fuse") != 0;
    const char* fix = fuses           ? "fused_optimizer"
                      : *way == "own" ? "own_optimizer"
                                      : "foreach_optimizer";
    Finding& finding = all.add("optimizer", Cause::optimizer, share, "step_time", fix);
    const std::string* name = each.fact("optimizer");
    finding.evidence.push_back(
        {*way == "loop" ? "optimizer_loops" : "optimizer_walks",
         {{"optimizer", name == nullptr ? std::string("the optimizer") : *name},
          {"tensors", static_cast<std::int64_t>(number_fact(each, "optimizer_tensors"))}}});
    return;
  }
  all.add("optimizer", Cause::optimizer, share, "step_time", "fused_optimizer");
}

// Finds cores that no thread of torch uses, for each host, because ranks on one host share its
// cores.
void add_threads(const RunRecord& record, const RunReport& report, RunFindings& all) {
  std::map<std::string, std::uint64_t> threads;
  std::map<std::string, std::set<std::uint32_t>> cores;
  for (const ProcessRecord& each : record.processes) {
    if (each.steps.empty()) continue;
    if (device_name(each) != "cpu") return;
    std::uint64_t used = number_fact(each, "threads");
    if (used == 0) return;
    threads[each.host] += used;
    cores[each.host].insert(each.affinity.begin(), each.affinity.end());
  }
  for (const auto& [host, used] : threads) {
    std::uint64_t available = cores[host].size();
    if (available <= used) continue;
    double idle = 1 - static_cast<double>(used) / static_cast<double>(available);
    double share = host_share(report, HostPart::compute) * idle;
    if (share < 0.05) continue;
    Finding& finding = all.add("threads", Cause::threads, share, "step_time", "set_threads");
    finding.values.emplace_back("threads", static_cast<std::int64_t>(used));
    finding.values.emplace_back("cores", static_cast<std::int64_t>(available));
    return;
  }
}

struct SlowRank {
  std::int64_t own_ns = 0, typical_ns = 0;
  double share = 0;  // share of its step that the others would no longer wait for
};

SlowRank slow_rank_of(const RunReport& report) {
  SlowRank slow;
  std::int64_t step = 1;
  std::vector<std::int64_t> own;
  for (const RunRankReport& each : report.by_rank) {
    if (!each.own) continue;
    own.push_back(each.own->count());
    if (each.rank != report.slowest_rank) continue;
    slow.own_ns = own.back();
    if (each.step) step = std::max<std::int64_t>(each.step->median.count(), 1);
  }
  if (!report.slowest_rank || own.empty()) return {};
  std::sort(own.begin(), own.end());
  slow.typical_ns = own[(own.size() - 1) / 2];
  auto more = static_cast<double>(slow.own_ns - slow.typical_ns);
  slow.share = std::min(1.0, more / static_cast<double>(step));
  return slow;
}

void add_slow_rank(const RunReport& report, RunFindings& all) {
  if (!report.slowest_rank) return;
  SlowRank slow = slow_rank_of(report);
  Finding& finding =
      all.add("straggler", Cause::straggler, slow.share, "step_time", "look_at_slow_rank");
  finding.values.emplace_back("rank", std::int64_t{*report.slowest_rank});
  finding.values.emplace_back("own_ns", slow.own_ns);
  finding.values.emplace_back("typical_ns", slow.typical_ns);
}

// Finds a wide data type on a device that is faster in a narrow one. The datasheet says so; for a
// processor both must have been measured.
void add_precision(const RunQuestion& question, const RunReport& report, bool tf32_possible,
                   RunFindings& all) {
  const std::optional<Device>& device = question.device.device;
  bool double_wide = report.dtype == "fp64";
  if (!device || question.peak || question.precision) return;
  if (!double_wide && report.dtype != "fp32") return;
  std::optional<FasterPeak> faster =
      faster_peak(*device, double_wide ? Precision::fp64 : Precision::fp32);
  if (!faster || (device->kind == "cpu" && !double_wide)) {
    if (tf32_possible) all.add("tf32_not_allowed", Cause::precision, 0, "step_time", "allow_tf32");
    return;
  }
  // At most, all of the device's own time shrinks, as far as that time is known.
  double most = 1 - share_of(report, StepPhase::data_wait) - host_share(report, HostPart::sleep);
  double share = std::max(0.0, most) * (1 - faster->time_fraction);
  const char* fix = faster->peak.against == Precision::fp32   ? "use_fp32"
                    : faster->peak.against == Precision::bf16 ? "use_bf16"
                                                              : "use_fp16";
  Finding& finding = all.add("precision", Cause::precision, share, "step_time", fix);
  finding.values.emplace_back("dtype", report.dtype);
  finding.evidence.push_back({"peaks_by_type",
                              {{"device", device->name},
                               {"dtype", report.dtype},
                               {"peak_flop_per_s", report.peak ? report.peak->per_s : 0},
                               {"faster_dtype", std::string(name_of(*faster->peak.against))},
                               {"faster_flop_per_s", faster->peak.rate->per_s}}});
  if (tf32_possible) finding.fixes.emplace_back("use_tf32");
}

}  // namespace

std::vector<Finding> findings_of_run(const RunRecord& record, const RunQuestion& question,
                                     const RunReport& report, bool tf32_possible) {
  RunFindings all(report);
  // If the device runs behind the host, only times measured on the device mean anything.
  if (!report.asynchronous || report.device_timed) {
    add_loading(record, report, all);
    for (const PhaseRule& rule : kPhaseRules) {
      // A slow rank that explains half of the waiting is the reason for it.
      bool waits_for_rank = rule.phase == StepPhase::communication &&
                            2 * slow_rank_of(report).share > share_of(report, rule.phase);
      if (share_of(report, rule.phase) < rule.from || waits_for_rank) continue;
      all.add(rule.code, rule.cause, share_of(report, rule.phase), "step_time", rule.fix);
    }
    add_optimizer(record, report, all);
    if (!report.asynchronous) add_threads(record, report, all);
    add_slow_rank(report, all);
    add_precision(question, report, tf32_possible, all);
  }
  if (report.flop && report.flop->recomputed_flop > FlopCount(0)) {
    double share =
        report.flop->recomputed_flop.to_double() / report.flop->hardware_flop.to_double();
    all.add("recomputation", Cause::recomputation, share, "executed_flop", "checkpoint_less");
  }
  rank_and_cut(all.findings);
  // If nothing is known about communication, nobody knows that the time is in the passes.
  bool told = report.phase[static_cast<std::size_t>(StepPhase::communication)].has_value();
  if (all.findings.empty() && told && report.mfu && report.mfu->value < kFairMfu) {
    all.add("passes_themselves", Cause::implementation, 0, "step_time", "explain_it");
  }
  return all.findings;
}

}  // namespace mfu
