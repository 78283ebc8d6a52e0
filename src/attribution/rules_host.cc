#include <algorithm>
#include <cmath>

#include "attribution/rules.h"
#include "base/saturating.h"

namespace mfu {

Finding finding_of(const Situation& situation, std::string code, Cause cause, std::int64_t ns) {
  double window =
      static_cast<double>(std::max<std::int64_t>(situation.rank.window.duration_ns(), 1));
  return {.code = std::move(code),
          .cause = cause,
          .values = {{"of", "window"},
                     {"fraction", static_cast<double>(ns) / window},
                     {"duration_ns", ns},
                     {"on", situation.rank.cpu ? "cpu" : "accelerator"}},
          .gain_ceiling_ns = ns};
}

std::vector<NotedItem> idle_list(const Situation& situation, LedgerLine cause, std::size_t most) {
  std::vector<NotedItem> sums;
  for (const IdleLine& line : situation.rank.idle) {
    if (line.cause != cause || line.what.empty()) continue;
    std::string name = short_name(line.what);
    auto same = std::find_if(sums.begin(), sums.end(),
                             [&](const NotedItem& sum) { return sum.name == name; });
    if (same == sums.end()) same = sums.insert(sums.end(), {name, 0, 0});
    same->duration_ns += line.duration_ns;
  }
  std::stable_sort(sums.begin(), sums.end(), [](const NotedItem& a, const NotedItem& b) {
    return a.duration_ns > b.duration_ns;
  });
  if (sums.size() > most) sums.resize(most);
  return sums;
}

std::string idle_code(const Situation& situation, LedgerLine cause) {
  for (const IdleLine& line : situation.rank.idle) {
    if (line.cause == cause && !line.code.empty()) return line.code;
  }
  return {};
}

namespace {

// Every trace has a little time without a known reason. A smaller share of the window is not
// reported.
constexpr double kWorthUnexplainedFraction = 0.1;
constexpr double kRoomForWorker = 0.5;  // free part of a core that another worker needs

void add_code(const Situation& situation, LedgerLine cause, Finding& finding) {
  std::string code = idle_code(situation, cause);
  if (!code.empty()) finding.evidence.push_back({"at_code", {{"code", code}}});
}

// Whether the loader computes, instead of waiting for disks and networks. Inside the loop this
// shows in the loop's processor time. With workers it shows in theirs; a worker that waits for a
// core counts as computing. Some child processes are not workers and do nothing, so the busiest one
// decides.
bool loader_works(const Situation& situation) {
  const ProfiledWindow* counted = situation.counted;
  if (counted == nullptr || counted->loading.count() == 0) return false;
  return 2 * counted->loading_cpu > counted->loading || 2 * counted->busiest_child > counted->wall;
}

// Says what to do about workers that compute. More of them help only if there are free cores.
void advise_workers(const ProfiledWindow& counted, Finding& finding) {
  auto wall = static_cast<double>(std::max<std::int64_t>(counted.wall.count(), 1));
  double wanted = static_cast<double>(counted.children_ready.count()) / wall;
  double own = static_cast<double>(counted.cpu.count()) / wall;
  auto cores = static_cast<double>(counted.cores_available);
  finding.evidence.push_back({"workers_want_cores",
                              {{"wanted", std::round(10 * wanted) / 10},
                               {"cores", static_cast<std::int64_t>(counted.cores_available)}}});
  bool room = wanted + own + kRoomForWorker <= cores;
  finding.fixes = {room ? "more_workers" : "preprocess_once"};
}

struct EventMean {
  std::uint64_t events = 0;
  double mean_ns = 0;
};

bool is_fused(const RankAttribution& rank) {
  return std::any_of(rank.kernels.begin(), rank.kernels.end(), [](const KernelLine& kernel) {
    return kernel.name.find("FusedOptimizer") != std::string::npos;
  });
}

EventMean mean_event(const RankAttribution& rank) {
  EventMean mean;
  std::int64_t sum = 0;
  for (const KernelLine& kernel : rank.kernels) {
    mean.events += kernel.calls;
    sum = saturating_sum(sum, kernel.duration_ns);
  }
  if (mean.events > 0) mean.mean_ns = static_cast<double>(sum) / static_cast<double>(mean.events);
  return mean;
}

}  // namespace

std::optional<Finding> data_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t ns = rank.ledger[LedgerLine::idle_data];
  if (ns <= 0) return std::nullopt;
  Finding finding = finding_of(situation, "data_loading", Cause::data_loading, ns);
  std::int64_t longest = 0;
  std::int64_t gaps = 0;
  std::string range;
  for (const IdleLine& line : rank.idle) {
    if (line.cause != LedgerLine::idle_data) continue;
    gaps += static_cast<std::int64_t>(line.gaps);
    if (range.empty()) range = line.what;
  }
  for (const Gap& gap : rank.gaps) longest = std::max(longest, gap.ledger[LedgerLine::idle_data]);
  finding.evidence.push_back(
      {"data_waits", {{"waits", gaps}, {"longest_ns", longest}, {"host", range}}});
  bool alone = range.find("_SingleProcess") != std::string::npos;
  bool workers = range.find("_MultiProcessing") != std::string::npos;
  finding.fixes = {alone ? "start_workers" : "more_workers"};
  if (loader_works(situation)) {
    finding.code = "preprocessing";
    finding.cause = Cause::cpu_preprocessing;
    finding.evidence.push_back({"loader_works", {}});
    finding.fixes = {"preprocess_offline"};
    if (alone) finding.fixes.emplace_back("start_workers");
    if (workers) advise_workers(*situation.counted, finding);
  }
  if (alone) finding.evidence.push_back({"loader_in_process", {}});
  if (workers) finding.evidence.push_back({"workers_do_not_keep_up", {}});
  add_code(situation, LedgerLine::idle_data, finding);
  return finding;
}

std::optional<Finding> preprocessing_rule(const Situation& situation) {
  std::int64_t ns = situation.part.tally.cpu_work_ns;
  if (ns <= 0 || situation.rank.cpu) return std::nullopt;
  Finding finding = finding_of(situation, "cpu_operators", Cause::cpu_preprocessing, ns);
  std::vector<NotedItem> list;
  for (const IdleLine& line : situation.rank.idle) {
    if (line.cpu_work && list.size() < 5) list.push_back({line.what, line.duration_ns, 0});
  }
  finding.evidence.push_back({"host_operators", {{"operators", std::move(list)}}});
  finding.fixes = {"preprocess_offline"};
  return finding;
}

std::optional<Finding> launch_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  if (rank.cpu) return std::nullopt;  // tiny_rule covers it
  std::int64_t ns = rank.ledger[LedgerLine::idle_launch];
  ns -= situation.part.tally.launch_after_synchronization_ns + situation.part.tally.cpu_work_ns;
  EventMean mean = mean_event(rank);
  if (ns <= 0 || mean.events == 0) return std::nullopt;
  Finding finding = finding_of(situation, "kernel_launch", Cause::kernel_launch, ns);
  finding.evidence.push_back(
      {"mean_event",
       {{"events", static_cast<std::int64_t>(mean.events)},
        {"mean_ns", mean.mean_ns},
        {"wait_ns", static_cast<double>(ns) / static_cast<double>(mean.events)}}});
  std::vector<NotedItem> list = idle_list(situation, LedgerLine::idle_launch, 3);
  if (!list.empty()) finding.evidence.push_back({"waits_before", {{"events", std::move(list)}}});
  add_code(situation, LedgerLine::idle_launch, finding);
  if (2 * situation.part.tally.slow_call_ns > ns) {
    finding.evidence.push_back(
        {"slow_launches",
         {{"duration_ns", situation.part.tally.slow_call_ns},
          {"calls", static_cast<std::int64_t>(situation.part.tally.slow_calls)}}});
    finding.fixes = {"profile_after_warmup"};
    return finding;
  }
  finding.fixes = {"launch_less"};
  if (situation.trace.optimizer && !is_fused(rank)) finding.fixes.emplace_back("fused_optimizer");
  return finding;
}

std::optional<Finding> synchronization_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t waited = rank.ledger[LedgerLine::idle_synchronization];
  std::int64_t after = situation.part.tally.launch_after_synchronization_ns;
  if (waited + after <= 0) return std::nullopt;
  Finding finding =
      finding_of(situation, "synchronization", Cause::synchronization, waited + after);
  std::vector<NotedItem> list = idle_list(situation, LedgerLine::idle_synchronization, 3);
  if (!list.empty()) finding.evidence.push_back({"host_sat_in", {{"calls", std::move(list)}}});
  if (after > 0) finding.evidence.push_back({"until_launched", {{"duration_ns", after}}});
  add_code(situation, LedgerLine::idle_synchronization, finding);
  finding.fixes = {"read_device_less"};
  return finding;
}

namespace {

// Unexplained time for which the program is responsible. The scheduler counts how long the thread
// was ready but had no core, though not when: so much of the unexplained time is left out. But time
// that comes back in every step is no accident. Of that time, the thread is assumed to have had a
// core for at least as large a share as of all its time.
std::int64_t unexplained_ns(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t ns = rank.ledger[LedgerLine::idle_unknown];
  const ProfiledWindow* counted = situation.counted;
  if (!rank.cpu || counted == nullptr) return ns;
  std::int64_t left = ns - std::min(ns, counted->waited.count());
  std::int64_t active = rank.window.duration_ns() - rank.ledger[LedgerLine::idle_data] -
                        rank.intervals.exposed_communication_ns;
  if (rank.steps.size() < 2 || active <= 0) return left;
  std::int64_t least = ns;
  for (const StepLedger& step : rank.steps) {
    least = std::min(least, step.ledger[LedgerLine::idle_unknown]);
  }
  double ran = static_cast<double>(counted->loop_cpu.count()) / static_cast<double>(active);
  double again = static_cast<double>(least) * static_cast<double>(rank.steps.size());
  return std::max(left, static_cast<std::int64_t>(again * std::min(1.0, ran)));
}

// Whether the loop's thread computed in that time. Otherwise it was blocked.
bool computes(const Situation& situation, std::int64_t ns) {
  const ProfiledWindow* counted = situation.counted;
  if (!situation.rank.cpu || counted == nullptr) return false;
  if (counted->loop_cpu.count() == 0) return 3 * counted->cpu > 2 * counted->wall;
  auto off = counted->wall - counted->loop_cpu - counted->waited - counted->loading;
  return 2 * off.count() < ns;
}

// Whether the loop's thread wanted no core in most of that time.
bool is_blocked(const Situation& situation, std::int64_t ns) {
  const ProfiledWindow* counted = situation.counted;
  if (!situation.rank.cpu || counted == nullptr || counted->loop_cpu.count() == 0) return false;
  if (situation.rank.intervals.communication_ns > 0) return false;  // it may wait for other ranks
  auto off = counted->wall - counted->loop_cpu - counted->waited - counted->loading;
  return 2 * off.count() >= ns;
}

}  // namespace

std::optional<Finding> unknown_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t ns = unexplained_ns(situation);
  double window = static_cast<double>(rank.window.duration_ns());
  if (ns <= 0 || static_cast<double>(ns) < kWorthUnexplainedFraction * window) return std::nullopt;
  Finding finding = finding_of(situation, "idle_unknown", Cause::unknown, ns);
  if (computes(situation, ns)) {
    finding.code = "host_code";
    finding.cause = Cause::cpu_preprocessing;
    finding.evidence.push_back({"host_is_busy", {}});
    finding.fixes = {"preprocess_offline"};
    return finding;
  }
  if (is_blocked(situation, ns)) {
    finding.code = "host_waits";
    finding.cause = Cause::host;
    finding.fixes = {"look_where_it_waits"};
    return finding;
  }
  for (const Gap& gap : rank.gaps) {  // longest first
    if (gap.reason.empty()) continue;
    finding.evidence.push_back({"longest_gap",
                                {{"longest_ns", gap.end_ns - gap.start_ns},
                                 {"next", short_name(gap.next).substr(0, 60)},
                                 {"reason", gap.reason}}});
    break;
  }
  if (situation.part.tally.graph_unknown_ns > 0) {
    finding.evidence.push_back(
        {"before_graph_kernels", {{"duration_ns", situation.part.tally.graph_unknown_ns}}});
  }
  finding.fixes = {rank.cpu ? "record_stacks" : "record_the_host"};
  return finding;
}

}  // namespace mfu
