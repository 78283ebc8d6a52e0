#include "report/run_phases.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "mfu/utilization.h"
#include "report/run_devices.h"

namespace mfu {

namespace {

using std::chrono::nanoseconds;

std::uint64_t value_at(const std::map<std::uint64_t, std::uint64_t>& spread, double share) {
  std::uint64_t all = 0, reached = 0;
  for (const auto& [value, count] : spread) all += count;
  auto rank = static_cast<std::uint64_t>(share * static_cast<double>(all));
  for (const auto& [value, count] : spread) {
    reached += count;
    if (reached > rank) return value;
  }
  return spread.rbegin()->first;
}

template <class Counts>
void add_total(PhaseSum& sum, const PhaseTotal& total, const Counts& counts) {
  RunPhaseReport& report = sum.report;
  report.passes += total.passes;
  report.time += total.time;
  if (total.passes != 0 && !total.mixed) ++sum.processes;
  if (total.mixed) {
    report.mixed_passes += total.passes;
    sum.mixed_time += total.time;
    sum.mixed_bytes += total.weight_read_bytes + total.cache_read_bytes + total.cache_written_bytes;
    for (const PhaseTotal::Line& line : total.lines) sum.mixed_flop += line.flop.model_flop;
  }
  report.weight_read_bytes += total.weight_read_bytes;
  report.cache_read_bytes += total.cache_read_bytes;
  report.cache_written_bytes += total.cache_written_bytes;
  if (total.largest_batch != 0) {
    report.largest_batch = std::max(report.largest_batch.value_or(0), total.largest_batch);
  }
  for (const Occurrence& each : total.durations_ns) sum.durations[each.value] += each.count;
  for (const Occurrence& each : total.batches) sum.batches[each.value] += each.count;
  if (total.tokens != 0) {
    report.tokens = report.tokens.value_or(0) + total.tokens;
  }
  for (const PhaseTotal::Line& line : total.lines) {
    report.model_flop += line.flop.model_flop;
    report.hardware_flop += line.flop.hardware_flop;
    if (!counts(line)) continue;
    sum.by_type[line.type].model_flop += line.flop.model_flop;
    sum.by_type[line.type].hardware_flop += line.flop.hardware_flop;
  }
}

// Adds what the process counted in no finished pass: one was still under way.
void add_rest(PhaseSums& sums, const ProcessRecord& process) {
  FlopCount model, hardware;
  for (const OperatorTotal& each : process.totals) {
    if (!each.reason.empty()) continue;
    model += each.flop.model_flop;
    hardware += each.flop.hardware_flop;
  }
  for (const PhaseTotal& phase : process.phases) {
    for (const PhaseTotal::Line& line : phase.lines) {
      model = model > line.flop.model_flop ? model - line.flop.model_flop : FlopCount(0);
      hardware =
          hardware > line.flop.hardware_flop ? hardware - line.flop.hardware_flop : FlopCount(0);
    }
  }
  if (model == FlopCount(0) && hardware == FlopCount(0)) return;
  PhaseSum& other = sums[{RunPhase::other, ""}];
  other.report.phase = RunPhase::other;
  other.report.model_flop += model;
  other.report.hardware_flop += hardware;
}

std::string model_name(const ProcessRecord& process, std::uint32_t model) {
  for (const PhaseTotal& each : process.phases) {
    if (each.model == model) return each.model_name;
  }
  return "";
}

}  // namespace

// Two models of one class in one process are two entries. The later ones get a number.
std::map<std::uint32_t, std::string> model_names(const ProcessRecord& process) {
  std::map<std::uint32_t, std::string> names;
  std::map<std::string, int> seen;
  for (const PhaseTotal& each : process.phases) names.emplace(each.model, "");
  for (auto& [model, name] : names) {
    name = model_name(process, model);
    int number = ++seen[name];
    if (number > 1 && !name.empty()) name += " " + std::to_string(number);
  }
  return names;
}

bool only_launched(const RunReport& report, RunPhase phase) {
  return report.device_timed &&
         (phase == RunPhase::train || phase == RunPhase::validation || phase == RunPhase::forward);
}

PhaseUse use_of(const RunReport& report, const PhaseSum& sum) {
  CountedFlop all;
  all.model_flop = sum.report.model_flop;
  std::uint64_t sharers = std::max<std::uint64_t>({report.ranks, sum.processes, 1});
  UtilizationInput input;
  input.duration = sum.report.kept_time * report.devices / sharers;
  if (all.model_flop == FlopCount(0) || input.duration.count() <= 0) return {};
  double kept = sum.report.kept_model_flop.to_double() / all.model_flop.to_double();
  for (const auto& [type, flop] : sum.by_type) {
    if (flop.model_flop == FlopCount(0)) continue;
    auto same = [&name = type](const RunType& each) { return each.type == name; };
    auto found = std::find_if(report.by_type.begin(), report.by_type.end(), same);
    auto part = [&](FlopCount whole) {
      return FlopCount(static_cast<std::uint64_t>(whole.to_double() * kept));
    };
    bool one = flop.model_flop == all.model_flop;
    input.work.push_back({.model_flop = one ? sum.report.kept_model_flop : part(flop.model_flop),
                          .hardware_flop = part(flop.hardware_flop),
                          .peak = found != report.by_type.end() ? found->peak.rate : report.peak});
  }
  if (sum.report.kept_moved_bytes != 0) {
    input.moved = Bytes{sum.report.kept_moved_bytes};
    input.bandwidth = report.bandwidth;
  }
  Result<Utilization> used = utilization_of(input);
  if (!used.has_value()) return {};
  PhaseUse use{.mbu = used->mbu};
  if (used->complete) {
    use.mfu = used->mfu;
    use.hfu = used->hfu;
  }
  return use;
}

namespace {

std::string shown_model(const StepPhaseTotal& pass, std::map<std::uint32_t, std::string>& names) {
  return pass.phase == RunPhase::other ? "" : names[pass.model];
}

void add_kept(PhaseSums& sums, const KeptSteps& kept) {
  std::map<std::uint32_t, std::string> names = model_names(*kept.process);
  for (const Step* step : kept.steps) {
    if (step->profiled) continue;
    for (const StepPhaseTotal& pass : step->passes) {
      auto found = sums.find({pass.phase, shown_model(pass, names)});
      if (found == sums.end()) continue;
      found->second.report.kept_time += pass.time;
      found->second.report.kept_model_flop += pass.model_flop;
      found->second.report.kept_moved_bytes += pass.moved_bytes;
    }
  }
}

// Without steps there is no warm-up to detect, so everything is kept.
void keep_all(PhaseSums& sums, const ProcessRecord& process) {
  std::map<std::uint32_t, std::string> names = model_names(process);
  for (const PhaseTotal& total : process.phases) {
    RunPhaseReport& report =
        sums[{total.phase, total.phase == RunPhase::other ? "" : names[total.model]}].report;
    report.kept_time += total.time;
    for (const PhaseTotal::Line& line : total.lines) {
      report.kept_model_flop += line.flop.model_flop;
    }
    report.kept_moved_bytes +=
        total.weight_read_bytes + total.cache_read_bytes + total.cache_written_bytes;
  }
}

// Some passes decode some sequences and prefill others. Their time is divided in proportion to what
// each part needs at the roof.
void divide_mixed(PhaseSums& sums, RunReport& report) {
  std::uint64_t passes = 0;
  for (auto& [key, decode] : sums) {
    if (std::get<0>(key) != RunPhase::decode || decode.mixed_time.count() == 0) continue;
    auto found = sums.find({RunPhase::prefill, std::get<1>(key)});
    if (found == sums.end()) continue;
    PhaseSum& prefill = found->second;
    Roof roof{.peak = report.peak, .bandwidth = report.bandwidth};
    double first = roof_seconds(prefill.mixed_flop, Bytes{prefill.mixed_bytes}, roof);
    double second = roof_seconds(decode.mixed_flop, Bytes{decode.mixed_bytes}, roof);
    if (first + second <= 0) continue;
    double share = first / (first + second);
    auto part_of = [&](nanoseconds whole) {
      return nanoseconds(static_cast<std::int64_t>(static_cast<double>(whole.count()) * share));
    };
    nanoseconds part = part_of(decode.mixed_time), all = decode.report.time;
    double kept = all.count() > 0 ? static_cast<double>(decode.report.kept_time.count()) /
                                        static_cast<double>(all.count())
                                  : 0;
    nanoseconds kept_part(static_cast<std::int64_t>(static_cast<double>(part.count()) * kept));
    decode.report.time -= part;
    decode.report.kept_time -= kept_part;
    prefill.report.time += part;
    prefill.report.kept_time += kept_part;
    passes += decode.report.mixed_passes;
  }
  if (passes == 0) return;
  report.notes.push_back({report.peak && report.bandwidth ? "mixed_passes" : "mixed_passes_by_flop",
                          {{"passes", static_cast<std::int64_t>(passes)}}});
}

void finish(PhaseSum& sum, const RunReport& report) {
  RunPhaseReport& phase = sum.report;
  if (!sum.durations.empty()) {
    phase.median_ns = value_at(sum.durations, 0.5);
    phase.p99_ns = value_at(sum.durations, 0.99);
  }
  if (!sum.batches.empty()) phase.median_batch = value_at(sum.batches, 0.5);
  double all = static_cast<double>(phase.time.count()) / 1e9;
  if (phase.tokens && all > 0) phase.tokens_per_s = static_cast<double>(*phase.tokens) / all;
  if (only_launched(report, phase.phase)) return;
  PhaseUse use = use_of(report, sum);
  phase.mfu = use.mfu;
  phase.mbu = use.mbu;
}

// Whether masks or labels were seen that tell which tokens are padding. Adds a note if some could
// not be read.
bool knows_padding(const RunRecord& record, RunReport& report) {
  bool seen = false, unread = false;
  for (const ProcessRecord& process : record.processes) {
    for (const Fact& fact : process.facts) {
      seen = seen || (fact.key == "padding" && fact.value == "seen");
      unread = unread || (fact.key == "padding" && fact.value == "unread");
    }
  }
  if (unread) report.notes.push_back({"padding_unread", {}});
  return seen && !unread;
}

std::uint64_t* kind_of(RunPhase phase, RunTokens& kinds) {
  if (phase == RunPhase::train) return &kinds.training;
  if (phase == RunPhase::validation || phase == RunPhase::forward) return &kinds.evaluation;
  if (phase == RunPhase::prefill) return &kinds.prompt;
  return phase == RunPhase::decode ? &kinds.generated : nullptr;
}

void add_kinds(const std::vector<RunPhaseReport>& phases, const RunRecord& record,
               RunReport& report) {
  if (!report.tokens) return;
  RunTokens kinds;
  for (const RunPhaseReport& each : phases) {
    if (std::uint64_t* kind = kind_of(each.phase, kinds)) *kind += each.tokens.value_or(0);
  }
  if (knows_padding(record, report)) kinds.padded = 0;
  for (const ProcessRecord& process : record.processes) {
    if (!kinds.padded) break;
    for (const PhaseTotal& each : process.phases) {
      std::uint64_t* kind = kind_of(each.phase, kinds);
      if (kind == nullptr) continue;
      std::uint64_t padded = std::min(*kind, each.padded_tokens);
      *kinds.padded += padded;
      *kind -= padded;
    }
  }
  report.tokens_by_kind = kinds;
}

void add_host(const std::vector<KeptSteps>& kept, RunReport& report) {
  nanoseconds parts[kHostParts] = {}, all{};
  bool known = false;
  for (const KeptSteps& rank : kept) {
    for (const Step* step : rank.steps) {
      if (step->profiled) continue;
      all += step->duration();
      for (std::size_t i = 0; i < kHostParts; ++i) {
        parts[i] += step->host_time[i];
        known = known || step->host_time[i].count() != 0;
      }
    }
  }
  if (!known || all.count() <= 0) return;
  double rest = 1;
  for (std::size_t i = 0; i < kHostParts; ++i) {
    double share = static_cast<double>(parts[i].count()) / static_cast<double>(all.count());
    // The clocks have different resolutions, so their sum may exceed the step. The excess is
    // dropped.
    share = std::min(share, std::max(rest, 0.0));
    report.host[i] = Fraction{share};
    rest -= share;
  }
  report.host_idle = Fraction{std::max(rest, 0.0)};
}

}  // namespace

void add_phases(const RunRecord& record, const std::vector<KeptSteps>& kept, RunReport& report) {
  PhaseSums sums;
  bool known = std::any_of(record.processes.begin(), record.processes.end(),
                           [](const ProcessRecord& each) { return !each.phases.empty(); });
  bool accelerators = uses_accelerators(record);
  auto counts = [&](const PhaseTotal::Line& line) { return !accelerators || line.device != "cpu"; };
  if (known) {
    for (const ProcessRecord& process : record.processes) {
      std::map<std::uint32_t, std::string> names = model_names(process);
      for (const PhaseTotal& total : process.phases) {
        std::string name = total.phase == RunPhase::other ? "" : names[total.model];
        PhaseSum& sum = sums[{total.phase, name}];
        sum.report.phase = total.phase;
        sum.report.model = name;
        add_total(sum, total, counts);
      }
      add_rest(sums, process);
      if (process.steps.empty() || process.idle.count() == 0) continue;
      sums[{RunPhase::other, ""}].report.time += process.idle;
    }
    for (const KeptSteps& each : kept) add_kept(sums, each);
    for (const ProcessRecord& process : record.processes) {
      if (process.steps.empty()) keep_all(sums, process);
    }
    divide_mixed(sums, report);
    add_windows(record, sums, report);
    for (auto& [key, sum] : sums) {
      finish(sum, report);
      report.phases.push_back(sum.report);
    }
    add_kinds(report.phases, record, report);
  }
  add_host(kept, report);
}

}  // namespace mfu
