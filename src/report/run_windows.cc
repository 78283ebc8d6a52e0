// Says what the time of the passes went to, and makes windows in place of steps.
#include <algorithm>
#include <set>

#include "mfu/utilization.h"
#include "report/run_phases.h"

namespace mfu {

namespace {

using std::chrono::nanoseconds;

RunShare::Part part_of(RunPhase phase) {
  switch (phase) {
    case RunPhase::prefill:
    case RunPhase::decode:
      return RunShare::Part::generation;
    case RunPhase::train:
      return RunShare::Part::training;
    case RunPhase::validation:
      return RunShare::Part::validation;
    case RunPhase::forward:
      return RunShare::Part::forward;
    case RunPhase::other:
      break;
  }
  return RunShare::Part::other;
}

void add_sum(PhaseSum& to, const PhaseSum& more) {
  to.processes = std::max(to.processes, more.processes);
  to.report.model_flop += more.report.model_flop;
  to.report.hardware_flop += more.report.hardware_flop;
  to.report.kept_time += more.report.kept_time;
  to.report.kept_model_flop += more.report.kept_model_flop;
  to.report.kept_moved_bytes += more.report.kept_moved_bytes;
  if (more.report.tokens) to.report.tokens = to.report.tokens.value_or(0) + *more.report.tokens;
  for (const auto& [type, flop] : more.by_type) {
    to.by_type[type].model_flop += flop.model_flop;
    to.by_type[type].hardware_flop += flop.hardware_flop;
  }
}

void add_shares(const PhaseSums& sums, RunReport& report) {
  std::map<RunShare::Part, PhaseSum> parts;
  std::set<RunShare::Part> launched;
  nanoseconds all{};
  for (const auto& [key, sum] : sums) {
    if (sum.report.kept_time.count() <= 0) continue;
    if (only_launched(report, std::get<0>(key))) launched.insert(part_of(std::get<0>(key)));
    add_sum(parts[part_of(std::get<0>(key))], sum);
    all += sum.report.kept_time;
  }
  bool only_training = parts.size() == 1 && parts.begin()->first == RunShare::Part::training;
  if (all.count() <= 0 || only_training) return;
  for (const auto& [part, sum] : parts) {
    PhaseUse use = launched.contains(part) ? PhaseUse{} : use_of(report, sum);
    double share =
        static_cast<double>(sum.report.kept_time.count()) / static_cast<double>(all.count());
    report.shares.push_back({part, sum.report.kept_time, Fraction{share}, use.mfu, use.mbu});
  }
  std::stable_sort(report.shares.begin(), report.shares.end(),
                   [](const RunShare& a, const RunShare& b) { return a.time > b.time; });
}

// What the window adds to the one before it.
StepPhaseTotal less(StepPhaseTotal pass, const WindowRecord* before) {
  if (before == nullptr) return pass;
  for (const StepPhaseTotal& each : before->passes) {
    if (each.phase != pass.phase || each.model != pass.model) continue;
    auto take = [](std::uint64_t& from, std::uint64_t part) { from -= std::min(from, part); };
    auto take_flop = [](FlopCount& from, FlopCount part) {
      from = from > part ? from - part : FlopCount(0);
    };
    take(pass.passes, each.passes);
    take(pass.tokens, each.tokens);
    take(pass.moved_bytes, each.moved_bytes);
    take_flop(pass.hardware_flop, each.hardware_flop);
    take_flop(pass.model_flop, each.model_flop);
    pass.time -= std::min(pass.time, each.time);
  }
  return pass;
}

// Merges lines of the same phase and model (whole passes, and parts of mixed ones).
std::vector<StepPhaseTotal> merged(const std::vector<StepPhaseTotal>& passes) {
  std::vector<StepPhaseTotal> all;
  for (const StepPhaseTotal& each : passes) {
    auto same = std::find_if(all.begin(), all.end(), [&](const StepPhaseTotal& other) {
      return other.phase == each.phase && other.model == each.model;
    });
    if (same == all.end()) {
      all.push_back(each);
      continue;
    }
    same->passes += each.passes;
    same->tokens += each.tokens;
    same->moved_bytes += each.moved_bytes;
    same->hardware_flop += each.hardware_flop;
    same->model_flop += each.model_flop;
    same->time += each.time;
  }
  return all;
}

void add_pass(RunWindow& window, const StepPhaseTotal& pass, const std::string& model) {
  if (pass.passes == 0 && pass.time.count() == 0) return;
  auto same = std::find_if(
      window.phases.begin(), window.phases.end(),
      [&](const RunPhaseReport& each) { return each.phase == pass.phase && each.model == model; });
  if (same == window.phases.end()) same = window.phases.insert(same, RunPhaseReport{});
  same->phase = pass.phase;
  same->model = model;
  same->passes += pass.passes;
  if (pass.tokens != 0) same->tokens = same->tokens.value_or(0) + pass.tokens;
  same->model_flop += pass.model_flop;
  same->hardware_flop += pass.hardware_flop;
  same->time += pass.time;
  same->kept_moved_bytes += pass.moved_bytes;
}

// A window has the shares of types, and the number of processes, of its whole phase.
void finish_window(RunWindow& window, const PhaseSums& sums, const RunReport& report) {
  for (RunPhaseReport& each : window.phases) {
    auto found = sums.find({each.phase, each.model});
    each.kept_time = each.time;
    each.kept_model_flop = each.model_flop;
    double seconds = static_cast<double>(each.time.count()) / 1e9;
    if (each.tokens && seconds > 0) {
      each.tokens_per_s = static_cast<double>(*each.tokens) / seconds;
    }
    if (found == sums.end()) continue;
    PhaseSum part = found->second;
    part.report = each;
    PhaseUse use = use_of(report, part);
    each.mfu = use.mfu;
    each.mbu = use.mbu;
  }
}

// The windows of processes that one launcher watches end at the same time.
void add_process_windows(const ProcessRecord& process, nanoseconds origin,
                         std::vector<RunWindow>& all) {
  constexpr nanoseconds kTogether = std::chrono::seconds(1);
  std::map<std::uint32_t, std::string> names = model_names(process);
  WindowRecord before;
  bool first = true;
  for (const WindowRecord& record : process.windows) {
    WindowRecord sums = record;
    sums.passes = merged(record.passes);
    nanoseconds start = first ? record.start : std::max(record.start, before.end);
    nanoseconds end = record.end + process.realtime_offset - origin;
    auto same = std::find_if(all.begin(), all.end(), [&](const RunWindow& each) {
      return std::chrono::abs(each.start + each.duration - end) < kTogether;
    });
    if (same == all.end()) {
      start += process.realtime_offset - origin;
      same = all.insert(same, RunWindow{.start = start, .duration = end - start});
    }
    same->idle += sums.idle - (first ? nanoseconds(0) : std::min(before.idle, sums.idle));
    for (const StepPhaseTotal& pass : sums.passes) {
      bool nameless = pass.phase == RunPhase::other;
      add_pass(*same, less(pass, first ? nullptr : &before), nameless ? "" : names[pass.model]);
    }
    before = std::move(sums);
    first = false;
  }
}

// A run without steps: its totals are over the time that its passes took.
void add_whole(const PhaseSums& sums, RunReport& report) {
  PhaseSum whole;
  for (const auto& [key, sum] : sums) {
    if (sum.report.kept_time.count() > 0) add_sum(whole, sum);
  }
  nanoseconds time = whole.report.kept_time;
  if (time.count() <= 0) return;
  PhaseUse use = use_of(report, whole);
  report.mfu = use.mfu;
  report.hfu = use.hfu;
  report.reached = whole.report.kept_model_flop / time;
  if (report.tokens && whole.report.tokens) {
    report.tokens_per_s =
        static_cast<double>(*whole.report.tokens) / (static_cast<double>(time.count()) / 1e9);
  }
}

}  // namespace

void add_windows(const RunRecord& record, const PhaseSums& sums, RunReport& report) {
  add_shares(sums, report);
  nanoseconds origin = nanoseconds::max();
  for (const ProcessRecord& each : record.processes) {
    origin = std::min(origin, each.started + each.realtime_offset);
    if (each.phases.empty()) continue;
    report.idle = std::min(report.idle.value_or(each.idle), each.idle);
  }
  if (report.steps != 0) return;
  for (const ProcessRecord& each : record.processes) {
    add_process_windows(each, origin, report.windows);
  }
  std::sort(report.windows.begin(), report.windows.end(),
            [](const RunWindow& a, const RunWindow& b) { return a.start < b.start; });
  for (RunWindow& each : report.windows) finish_window(each, sums, report);
  add_whole(sums, report);
}

}  // namespace mfu
