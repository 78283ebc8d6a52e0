
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "mfu/run.h"
#include "mfu/workload.h"
#include "report/run_advice.h"
#include "report/run_coverage.h"
#include "report/run_devices.h"
#include "report/run_ending.h"
#include "report/run_explained.h"
#include "report/run_generation_advice.h"
#include "report/run_host_advice.h"
#include "report/run_phases.h"
#include "report/run_ranks.h"
#include "report/run_steps.h"

namespace mfu {

namespace {

using std::chrono::nanoseconds;

// One rank is one process that took steps.
struct Rank {
  const ProcessRecord* process = nullptr;
  std::vector<const Step*> steps;  // all
  std::uint64_t warmup = 0;

  std::vector<const Step*> kept() const {
    std::vector<const Step*> kept(steps.begin() + static_cast<std::ptrdiff_t>(warmup), steps.end());
    // The device measured these steps. A step whose end it had not reached has no time.
    bool timed = times_by_device(*process);
    std::erase_if(
        kept, [&](const Step* each) { return each->profiled || (timed && !each->device_time); });
    return kept;
  }
};

std::vector<Rank> ranks_of(const RunRecord& record, const RunQuestion& question) {
  std::vector<Rank> ranks;
  for (const ProcessRecord& each : record.processes) {
    Rank rank{&each, training_steps(each), 0};
    if (rank.steps.empty()) continue;
    rank.warmup = question.warmup ? std::min<std::uint64_t>(*question.warmup, rank.steps.size())
                                  : warmup_of(rank.steps);
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

bool observer_off(const ProcessRecord& process) {
  return std::any_of(process.facts.begin(), process.facts.end(), [](const Fact& each) {
    return each.key == "note" && each.value.starts_with("observer off");
  });
}

void add_totals(const RunRecord& record, RunReport& report) {
  std::map<std::string, CountedFlop> by_type;
  std::map<std::string, OperatorTotal> uncounted;
  CountedFlop sum;
  bool could_count = false;
  for (const ProcessRecord& process : record.processes) {
    could_count = could_count || !observer_off(process);
    for (const OperatorTotal& total : process.totals) {
      OperatorTotal& line = total.reason.empty() ? report.by_operator[total.name]
                                                 : uncounted[total.name + "\n" + total.reason];
      line.name = total.name;
      line.reason = total.reason;
      line.calls += total.calls;
      line.bytes += total.bytes;
      add(line.flop, total.flop);
      if (!total.reason.empty()) continue;
      report.counted_calls += total.calls;
      add(by_type[total.type], total.flop);
      add(sum, total.flop);
    }
  }
  for (auto& [key, line] : uncounted) report.uncounted.push_back(line);
  for (auto& [type, flop] : by_type) report.by_type.push_back({type, flop, {}});
  std::stable_sort(
      report.by_type.begin(), report.by_type.end(),
      [](const RunType& a, const RunType& b) { return a.flop.model_flop > b.flop.model_flop; });
  if (could_count) report.flop = sum;
}

void add_tokens(const RunRecord& record, RunReport& report) {
  std::uint64_t tokens = 0, samples = 0;
  for (const ProcessRecord& each : record.processes) {
    if (counts_tokens(record, each)) report.tokens = tokens += each.tokens;
    samples += each.samples;
  }
  if (samples > 0) report.samples = samples;
  for (RunRankReport& rank : report.by_rank) {
    if (!report.tokens) rank.tokens.reset();
    if (!report.samples) rank.samples.reset();
  }
}

void note_peak(const RunQuestion& question, const RunType& line, RunReport& report) {
  bool counts = line.flop.model_flop > FlopCount(0) || line.flop.hardware_flop > FlopCount(0);
  if (!line.peak.rate) {
    if (counts && question.device.device) {
      report.notes.push_back(
          {"no_peak_for_type", {{"dtype", line.type}, {"device", question.device.name}}});
    }
    return;
  }
  if (!line.peak.against || name_of(*line.peak.against) == line.type) return;
  report.notes.push_back(
      {question.precision                             ? "held_against_asked"
       : line.peak.reason == PeakReason::tf32_allowed ? "held_against_tf32"
                                                      : "held_against_wider",
       {{"dtype", line.type}, {"against", std::string(name_of(*line.peak.against))}}});
}

void add_peaks(const RunRecord& record, const RunQuestion& question, RunReport& report) {
  Tf32 tf32 = tf32_of(record);
  report.device = question.device.name;
  report.devices = question.device.devices;
  if (question.device.device) report.bandwidth = question.device.device->bandwidth;
  if (!report.bandwidth && question.device.ceiling) {
    report.bandwidth = question.device.ceiling->bandwidth;
  }
  for (RunType& each : report.by_type) {
    each.peak = choose_peak(peak_question(question), each.type, tf32);
    note_peak(question, each, report);
  }
  report.dtype = report.by_type.empty() ? "" : report.by_type[0].type;
  if (question.precision) report.dtype = name_of(*question.precision);
  ChosenPeak main = choose_peak(peak_question(question), report.dtype, tf32);
  report.peak = main.rate;
  if (!report.peak) return;
  report.peak_source = main.source;
  if (!question.device.ceiling) return;
  for (const Measured& each : question.device.ceiling->measured) {
    if (!each.rate || each.precision != main.against) continue;
    if (report.ceiling && each.rate->per_s <= report.ceiling->per_s) continue;
    report.ceiling = each.rate;
    report.ceiling_source = each.method;
  }
}

// What the exact area takes off a step whose attention ran as plain matmuls over the full square.
FlopCount excess_of_square(const ModelSpec& model, const Step& step) {
  if (step.samples == 0 || step.tokens % step.samples != 0 || step.tokens == 0) return 0;
  Workload work{.batch = step.samples, .sequence = step.tokens / step.samples};
  auto square = flop_by_convention(model, work, Convention::flopcounter, {});
  auto exact = flop_by_convention(model, work, Convention::exact, {});
  if (!square.has_value() || !exact.has_value()) return 0;
  if (!square->model_flop || !exact->model_flop) return 0;
  return *square->model_flop > *exact->model_flop ? *square->model_flop - *exact->model_flop : 0;
}

bool plain_attention(const RunReport& report) {
  bool batched = false, fused = false;
  for (const auto& [name, total] : report.by_operator) {
    batched = batched || name.find("bmm") != std::string::npos;
    fused = fused || name.find("attention") != std::string::npos;
  }
  return batched && !fused;
}

// Sums over the steps that are kept.
struct Kept {
  KeptByDevice by_device;
  FlopCount model_flop;
  nanoseconds duration{}, wall{};
  nanoseconds phase[kStepPhases] = {};
  std::uint64_t tokens = 0;
  std::vector<nanoseconds> durations;
};

void add_step(Kept& kept, const Step& step, bool has_vocabulary) {
  for (const TypedFlop& each : step.flop) kept.model_flop += each.flop.model_flop;
  kept.duration += step.duration();
  kept.durations.push_back(step.duration());
  for (std::size_t i = 0; i < kStepPhases; ++i) kept.phase[i] += step.phase[i];
  if (has_vocabulary) kept.tokens += step.tokens;
}

Kept keep(const RunRecord& record, const std::vector<Rank>& ranks) {
  Kept kept;
  std::vector<Interval> all;
  for (const Rank& rank : ranks) {
    const ProcessRecord& process = *rank.process;
    std::vector<DeviceUse> uses = uses_of(process);
    FlopByType flop;
    nanoseconds reached{};  // on the device, which reaches the end of a step after the host
    for (const Step* step : rank.kept()) {
      add_step(kept, *step, counts_tokens(record, process));
      for (const TypedFlop& each : step->flop) add(flop[each.type], each.flop);
      reached = std::max(reached + step->duration(), step->end);
      Interval interval{reached - step->duration(), reached};
      for (const DeviceUse& use : uses) {  // ranks of one CPU take turns on it
        kept.by_device[use.key].intervals.push_back(interval);
      }
      all.emplace_back(interval.first + process.realtime_offset,
                       interval.second + process.realtime_offset);
    }
    for (const auto& [key, types] : shared_out(flop, uses)) {
      for (const auto& [type, count] : types) add(kept.by_device[key].flop[type], count);
    }
  }
  kept.wall = union_of(std::move(all));
  return kept;
}

double seconds_of(nanoseconds duration) {
  return static_cast<double>(duration.count()) / 1e9;
}

void add_utilization(const RunRecord& record, const RunQuestion& question, const Kept& kept,
                     RunReport& report) {
  if (kept.wall.count() > 0) {
    report.reached = kept.model_flop / kept.wall;
    if (report.tokens) {
      report.tokens_per_s = static_cast<double>(kept.tokens) / seconds_of(kept.wall);
    }
  }
  if (report.ceiling) {
    Result<Utilization> used = utilization_of({.work = {{kept.model_flop, {}, report.ceiling}},
                                               .duration = kept.wall,
                                               .devices = report.devices});
    if (used.has_value()) report.of_ceiling = used->mfu;
  }
  if (auto used = utilization_of_devices(record, question, kept.by_device)) {
    report.mfu = used->mfu;
    report.hfu = used->hfu;
    if (!report.peak) {  // the devices differ
      report.peak = used->peak;
      report.peak_source = "each device's own, by its share of the work";
    }
  }
  for (std::size_t i = 0; i < kStepPhases && kept.duration.count() > 0; ++i) {
    report.phase[i] = Fraction{seconds_of(kept.phase[i]) / seconds_of(kept.duration)};
  }
}

void add_wall(const RunRecord& record, const RunQuestion& question, RunReport& report) {
  if (record.run.started && record.run.ended) {
    report.wall = *record.run.ended - *record.run.started;
  } else if (!record.processes.empty()) {
    nanoseconds first = nanoseconds::max(), last = nanoseconds::min();
    for (const ProcessRecord& each : record.processes) {
      first = std::min(first, each.started + each.realtime_offset);
      last = std::max(last, each.last + each.realtime_offset);
    }
    report.wall = std::max(last - first, nanoseconds(0));
  }
  if (!report.flop || !report.wall || report.wall->count() <= 0) return;
  if (auto used = utilization_of_wall(record, question, *report.wall)) report.mfu_wall = used->mfu;
}

// Reports one rank. A rank that was restarted has several processes. `alone`: no other host has
// ranks. Then time in which other processes had the cores does not count as a rank's own time,
// because it hits ranks of one host by chance.
RunRankReport rank_report(const std::vector<const Rank*>& processes, bool alone) {
  RunRankReport report;
  report.restarts = processes.size() - 1;
  std::vector<nanoseconds> durations, own;
  nanoseconds all{}, phase[kStepPhases] = {};
  std::uint64_t tokens = 0, samples = 0;
  for (const Rank* rank : processes) {
    const ProcessRecord& process = *rank->process;
    report.rank = process.rank;
    report.host = process.host;
    report.pid = process.pid;
    report.device = device_name(process);
    report.steps += rank->steps.size();
    report.steps_dropped += process.steps_dropped;
    report.tokens = tokens += process.tokens;
    report.samples = samples += process.samples;
    for (const OperatorTotal& each : process.totals) add(report.flop, each.flop);
    for (const Step* step : rank->kept()) {
      durations.push_back(step->duration());
      all += step->duration();
      for (std::size_t i = 0; i < kStepPhases; ++i) phase[i] += step->phase[i];
      nanoseconds waited = step->phase[static_cast<std::size_t>(StepPhase::communication)];
      if (alone) waited += step->host_time[static_cast<std::size_t>(HostPart::preempted)];
      own.push_back(std::max(step->duration() - waited, nanoseconds(0)));
    }
  }
  for (std::size_t i = 0; i < kStepPhases && all.count() > 0; ++i) {
    report.phase[i] = Fraction{seconds_of(phase[i]) / seconds_of(all)};
  }
  report.step = times_of(std::move(durations));
  if (auto times = times_of(std::move(own))) report.own = times->median;
  return report;
}

void add_by_rank(const std::vector<Rank>& ranks, RunReport& report) {
  std::vector<const ProcessRecord*> processes;
  std::set<std::string> hosts;
  for (const Rank& rank : ranks) {
    processes.push_back(rank.process);
    hosts.insert(rank.process->host);
    report.warmup = std::max(report.warmup, rank.warmup);
  }
  for (const std::vector<std::size_t>& chain : rank_chains(processes)) {
    std::vector<const Rank*> attempts;
    for (std::size_t index : chain) attempts.push_back(&ranks[index]);
    RunRankReport each = rank_report(attempts, hosts.size() == 1);
    report.steps = std::max(report.steps, each.steps + each.steps_dropped);
    report.by_rank.push_back(std::move(each));
  }
  report.ranks = report.by_rank.size();
}

// Ranks in lockstep all take as long as the slowest one. They differ in how long they work instead
// of waiting in a collective. A rank is reported as slow if that time is a tenth above the median
// and if a twentieth of the step could be saved.
std::optional<std::uint32_t> slowest_of(const std::vector<RunRankReport>& ranks) {
  std::vector<nanoseconds> own;
  const RunRankReport* slowest = nullptr;
  for (const RunRankReport& each : ranks) {
    if (!each.own || !each.rank) continue;
    own.push_back(*each.own);
    if (slowest == nullptr || *each.own > *slowest->own) slowest = &each;
  }
  if (own.size() < 2) return std::nullopt;
  std::sort(own.begin(), own.end());
  nanoseconds middle = own[(own.size() - 1) / 2];
  nanoseconds more = *slowest->own - middle;
  if (10 * more < middle || 20 * more < slowest->step->median) return std::nullopt;
  return slowest->rank;
}

void take_off_square(const ModelSpec& model, const std::vector<Rank>& ranks, Kept& kept,
                     RunReport& report) {
  if (!plain_attention(report)) {
    report.notes.push_back({"model_changes_nothing", {}});
    return;
  }
  FlopCount all, of_kept;
  for (const Rank& rank : ranks) {
    for (std::size_t i = 0; i < rank.steps.size(); ++i) {
      FlopCount excess = excess_of_square(model, *rank.steps[i]);
      all += excess;
      if (i >= rank.warmup && !rank.steps[i]->profiled) of_kept += excess;
    }
  }
  if (report.by_type.empty() || !report.flop) return;
  auto take_off = [](FlopCount& from, FlopCount excess) {
    from = from > excess ? from - excess : FlopCount(0);
  };
  take_off(report.flop->model_flop, all);
  take_off(report.by_type[0].flop.model_flop, all);
  auto of_device = [&](auto& a, auto& b) {
    auto flop = [&](auto& each) { return each.second.flop[report.by_type[0].type].model_flop; };
    return flop(a) < flop(b);
  };
  auto main = std::max_element(kept.by_device.begin(), kept.by_device.end(), of_device);
  if (main != kept.by_device.end()) {
    take_off(main->second.flop[report.by_type[0].type].model_flop, of_kept);
  }
  take_off(kept.model_flop, of_kept);
  report.notes.push_back({"square_taken_off", {{"model", model.name}, {"flop", all.to_string()}}});
}

void add_notes(const RunRecord& record, const RunQuestion& question, const std::vector<Rank>& ranks,
               RunReport& report) {
  auto note = [&](Note each) { report.notes.push_back(std::move(each)); };
  for (const std::string& each : record.unobserved) note(Note::said(each));
  if (failed_early(record, report)) {
    // add_ending() explains this case.
  } else if (record.processes.empty() && record.unobserved.empty()) {
    note({"no_torch", {}});
  } else if (!report.flop) {
    note({"nothing_observed", {}});
  } else if (ranks.empty() && report.flop->hardware_flop == FlopCount(0)) {
    note({"nothing_computed", {}});
  } else if (ranks.empty()) {
    note({report.mfu || report.reached ? "passes_instead_of_steps" : "no_step_seen", {}});
  }
  add_generation_notes(report);
  if (!ranks.empty() && report.warmup > 0) {
    note({question.warmup ? "warmup_asked" : "warmup",
          {{"steps", static_cast<std::int64_t>(report.warmup)},
           {"whose", ranks.size() == 1 ? "the run" : "each rank (at most)"}}});
  }
  for (const ProcessRecord& process : record.processes) {
    if (process.steps_dropped > 0) {
      report.partial = true;
      note({"steps_dropped",
            {{"steps", static_cast<std::int64_t>(process.steps_dropped)},
             {"pid", std::int64_t{process.pid}}}});
    }
    for (const Fact& fact : process.facts) {
      if (fact.key != "note") continue;
      Note said = Note::said(fact.value);
      if (std::find(report.notes.begin(), report.notes.end(), said) == report.notes.end()) {
        note(std::move(said));
      }
    }
  }
  if (!question.model && plain_attention(report)) note({"square_attention", {}});
  if (!report.peak && report.flop) note({"no_peak", {}});
}

void add_contradictions(RunReport& report) {
  auto check = [&](const char* what, const std::optional<Fraction>& share) {
    if (!share || share->value <= 1) return;
    report.contradictions.push_back({"above_peak",
                                     {{"what", what},
                                      {"fraction", share->value},
                                      {"suspect", "peak_or_devices"},
                                      {"peak_source", report.peak_source},
                                      {"devices", static_cast<std::int64_t>(report.devices)}}});
  };
  check("MFU", report.mfu);
  check("HFU", report.hfu);
  check("MFU of the whole run", report.mfu_wall);
}

}  // namespace

RunReport report_run(const RunRecord& record, const RunQuestion& question) {
  RunReport report;
  report.run = record.run;
  report.partial = record.partial;
  for (const std::string& note : record.notes) report.notes.push_back(Note::said(note));
  report.notes.insert(report.notes.end(), question.device.notes.begin(),
                      question.device.notes.end());
  std::vector<Rank> ranks = ranks_of(record, question);
  add_by_rank(ranks, report);
  add_totals(record, report);
  add_tokens(record, report);
  add_peaks(record, question, report);
  Kept kept = keep(record, ranks);
  if (question.model) take_off_square(*question.model, ranks, kept, report);
  report.step = times_of(kept.durations);
  add_utilization(record, question, kept, report);
  add_devices(record, question, kept.by_device, report);
  withhold_host_times(record, report);
  std::vector<KeptSteps> kept_steps;
  for (const Rank& rank : ranks) kept_steps.push_back({rank.process, rank.kept()});
  add_phases(record, kept_steps, report);
  add_wall(record, question, report);
  report.slowest_rank = slowest_of(report.by_rank);
  add_ending(record, report);
  add_ranks(record, report);
  add_notes(record, question, ranks, report);
  add_profiled(record, report);
  add_contradictions(report);
  add_coverage(record, report);
  bool tf32_possible = report.dtype == "fp32" && tf32_refused(record) && question.device.device &&
                       question.device.device->kind == "gpu" &&
                       question.device.device->peak(Precision::tf32) != nullptr;
  report.step_time = kept.duration;
  report.findings = findings_of_run(record, question, report, tf32_possible);
  if (!report.asynchronous) add_host_findings(record, kept.duration, report);
  if (!report.asynchronous) add_generation_findings(report, kept.duration);
  return report;
}

}  // namespace mfu
