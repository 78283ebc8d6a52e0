#include "report/run_phases.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "mfu/utilization.h"

namespace mfu {

namespace {

using std::chrono::nanoseconds;
using PhaseKey = std::tuple<RunPhase, std::string>;

struct PhaseSum {
  RunPhaseReport report;
  bool has_tokens = false;
  std::map<std::string, FlopCount> by_type;
  std::map<std::uint64_t, std::uint64_t> durations, batches;
};

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

void add_total(PhaseSum& sum, const PhaseTotal& total) {
  RunPhaseReport& report = sum.report;
  report.passes += total.passes;
  report.time += total.time;
  report.weight_read_bytes += total.weight_read_bytes;
  report.cache_read_bytes += total.cache_read_bytes;
  report.cache_written_bytes += total.cache_written_bytes;
  if (total.largest_batch != 0) {
    report.largest_batch = std::max(report.largest_batch.value_or(0), total.largest_batch);
  }
  for (const Occurrence& each : total.durations_ns) sum.durations[each.value] += each.count;
  for (const Occurrence& each : total.batches) sum.batches[each.value] += each.count;
  if (total.tokens != 0) {
    sum.has_tokens = true;
    report.tokens = report.tokens.value_or(0) + total.tokens;
  }
  for (const PhaseTotal::Line& line : total.lines) {
    report.model_flop += line.flop.model_flop;
    report.hardware_flop += line.flop.hardware_flop;
    sum.by_type[line.type] += line.flop.model_flop;
  }
}

// What a process counted and no pass of its holds: one that was under way.
void add_rest(std::map<PhaseKey, PhaseSum>& sums, const ProcessRecord& process) {
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

// Two models of one class in one process are two entries: the later ones get a number.
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

void add_kept(std::map<PhaseKey, PhaseSum>& sums, const KeptSteps& kept) {
  std::map<std::uint32_t, std::string> names = model_names(*kept.process);
  for (const Step* step : kept.steps) {
    if (step->profiled) continue;
    for (const StepPhaseTotal& pass : step->passes) {
      bool timeless = pass.phase == RunPhase::other;
      auto found = sums.find({pass.phase, timeless ? "" : names[pass.model]});
      if (found == sums.end()) continue;
      found->second.report.kept_time += pass.time;
      found->second.report.kept_model_flop += pass.model_flop;
    }
  }
}

// Of what was kept, shared among types as the whole phase's FLOPs are. Ranks that share a device
// share its time.
std::optional<Fraction> mfu_of(const RunReport& report, const PhaseSum& sum) {
  FlopCount all;
  for (const auto& [type, flop] : sum.by_type) all += flop;
  std::uint64_t ranks = std::max<std::uint64_t>(report.ranks, 1);
  UtilizationInput input;
  input.duration = sum.report.kept_time * std::min(report.devices, ranks) / ranks;
  if (all == FlopCount(0) || input.duration.count() <= 0) return std::nullopt;
  double kept = sum.report.kept_model_flop.to_double() / all.to_double();
  for (const auto& [type, flop] : sum.by_type) {
    if (flop == FlopCount(0)) continue;
    auto same = [&name = type](const RunType& each) { return each.type == name; };
    auto found = std::find_if(report.by_type.begin(), report.by_type.end(), same);
    FlopCount part = sum.by_type.size() == 1
                         ? sum.report.kept_model_flop
                         : FlopCount(static_cast<std::uint64_t>(flop.to_double() * kept));
    input.work.push_back({.model_flop = part,
                          .peak = found != report.by_type.end() ? found->peak.rate : report.peak});
  }
  Result<Utilization> used = utilization_of(input);
  if (!used.has_value() || !used->complete) return std::nullopt;
  return used->mfu;
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
  phase.mfu = mfu_of(report, sum);
}

void add_kinds(const std::vector<RunPhaseReport>& phases, const RunRecord& record,
               RunReport& report) {
  if (!report.tokens) return;
  RunTokens kinds;
  for (const RunPhaseReport& each : phases) {
    std::uint64_t tokens = each.tokens.value_or(0);
    if (each.phase == RunPhase::train) kinds.training += tokens;
    if (each.phase == RunPhase::validation || each.phase == RunPhase::forward) {
      kinds.evaluation += tokens;
    }
    if (each.phase == RunPhase::prefill) kinds.prompt += tokens;
    if (each.phase == RunPhase::decode) kinds.generated += tokens;
  }
  for (const ProcessRecord& process : record.processes) {
    for (const PhaseTotal& each : process.phases) {
      std::uint64_t padded = each.padded_tokens;
      if (padded != 0) kinds.padded = kinds.padded.value_or(0) + padded;
      if (each.phase == RunPhase::train) kinds.training -= std::min(kinds.training, padded);
      if (each.phase == RunPhase::validation || each.phase == RunPhase::forward) {
        kinds.evaluation -= std::min(kinds.evaluation, padded);
      }
      if (each.phase == RunPhase::prefill) kinds.prompt -= std::min(kinds.prompt, padded);
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
    // Clocks of different grain may give more than there is; what is over is nobody's.
    share = std::min(share, std::max(rest, 0.0));
    report.host[i] = Fraction{share};
    rest -= share;
  }
  report.host_idle = Fraction{std::max(rest, 0.0)};
}

}  // namespace

void add_phases(const RunRecord& record, const std::vector<KeptSteps>& kept, RunReport& report) {
  std::map<PhaseKey, PhaseSum> sums;
  bool known = std::any_of(record.processes.begin(), record.processes.end(),
                           [](const ProcessRecord& each) { return !each.phases.empty(); });
  if (known) {
    for (const ProcessRecord& process : record.processes) {
      std::map<std::uint32_t, std::string> names = model_names(process);
      for (const PhaseTotal& total : process.phases) {
        std::string name = total.phase == RunPhase::other ? "" : names[total.model];
        PhaseSum& sum = sums[{total.phase, name}];
        sum.report.phase = total.phase;
        sum.report.model = name;
        add_total(sum, total);
      }
      add_rest(sums, process);
    }
    for (const KeptSteps& each : kept) add_kept(sums, each);
    for (auto& [key, sum] : sums) {
      finish(sum, report);
      report.phases.push_back(sum.report);
    }
    add_kinds(report.phases, record, report);
  }
  add_host(kept, report);
}

}  // namespace mfu
