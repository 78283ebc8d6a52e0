#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "attribution/book.h"
#include "attribution/counted.h"
#include "attribution/findings.h"
#include "attribution/idle.h"
#include "attribution/ranks.h"
#include "attribution/sweep.h"
#include "attribution/tables.h"
#include "base/text.h"

namespace mfu {

namespace {

constexpr std::array<LedgerLine, kLevelCount> kLineOfLevel = {
    LedgerLine::matmul_below_peak,  // settled by the book
    LedgerLine::matmul_flop_unknown, LedgerLine::recomputation,
    LedgerLine::other_kernels,       LedgerLine::exposed_communication_transfer,
    LedgerLine::exposed_copy};

std::vector<std::int64_t> devices_of(const Trace& trace) {
  std::set<std::int64_t> devices;
  std::vector<std::uint8_t> seen(trace.lanes.size());
  for (std::uint32_t lane : trace.device.lane) seen[lane] = 1;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != 0) devices.insert(trace.lanes[i].device);
  }
  return {devices.begin(), devices.end()};
}

bool has_operators(const Trace& trace) {
  return std::find(trace.host.kind.begin(), trace.host.kind.end(), HostKind::op) !=
         trace.host.kind.end();
}

std::string device_name(const Trace& trace, std::int64_t id) {
  for (const DeviceProperties& device : trace.info.devices) {
    if (device.id == id) return device.name;
  }
  return trace.info.devices.size() == 1 ? trace.info.devices.front().name : "";
}

// The device by what the trace says of it.
std::optional<Device> known_device(const AttributionOptions& options, const Trace& trace,
                                   std::int64_t id, const std::string& named) {
  const Catalog& catalog = options.catalog != nullptr ? *options.catalog : Catalog::builtin();
  DeviceTraits traits{.name = named};
  for (const DeviceProperties& device : trace.info.devices) {
    if (device.id != id || device.name != named) continue;
    if (device.multiprocessors && *device.multiprocessors > 0) {
      traits.units = static_cast<std::uint32_t>(*device.multiprocessors);
    }
    if (device.memory_bytes && *device.memory_bytes > 0) {
      traits.memory = Bytes{static_cast<std::uint64_t>(*device.memory_bytes)};
    }
  }
  Result<Device> found = identify_device(catalog, traits);
  return found.has_value() ? std::optional(*found) : std::nullopt;
}

std::string_view type_text(const std::optional<Precision>& precision) {
  return precision ? name_of(*precision) : "others";
}

// Every instant of the window to one line.
void write_ledger(const Trace& trace, RankWork& work, const WindowPlan& plan,
                  const AttributionOptions& options, RankAttribution& rank, IdleTally& tally) {
  Works& works = work.works;
  Book book(plan, works);
  IdleSplitter idle(trace, works, options, work.cpu,
                    [&](std::int64_t from_ns, std::int64_t to_ns, LedgerLine line) {
                      book.charge(from_ns, to_ns, line);
                    });
  auto emit = [&](std::int64_t from_ns, std::int64_t to_ns, std::size_t level,
                  std::uint32_t owner) {
    if (level == kLevelCount) {
      idle.split(from_ns, to_ns, owner);
      return;
    }
    const WorkSpan& span = works.spans[owner];
    if (span.level == Level::matmul) {
      book.charge_matmul(from_ns, to_ns, span.call);
    } else if (span.level == Level::communication && span.wait != kNone) {
      std::int64_t waited_ns = std::clamp(span.start_ns + works.waits[span.wait], from_ns, to_ns);
      book.charge(from_ns, waited_ns, LedgerLine::exposed_communication_wait);
      book.charge(waited_ns, to_ns, LedgerLine::exposed_communication_transfer);
    } else {
      book.charge(from_ns, to_ns, kLineOfLevel[level]);
    }
  };
  Sweep<kLevelCount, decltype(emit)> sweep(plan.window.start_ns, plan.window.end_ns, emit);
  for (std::uint32_t i = 0; i < works.spans.size(); ++i) {
    const WorkSpan& span = works.spans[i];
    sweep.add(span.start_ns, span.end_ns, static_cast<std::size_t>(span.level), i);
  }
  sweep.finish();
  rank.steps = book.finish();
  for (const StepLedger& step : rank.steps) rank.ledger += step.ledger;
  if (plan.steps.empty()) rank.steps.clear();
  MFU_ASSERT(rank.ledger.total_ns() == plan.window.duration_ns());
  rank.idle = idle.lines();
  rank.gaps = idle.gaps();
  tally = idle.tally();
}

FlopCount share_of(FlopCount count, double inside) {
  if (inside >= 1) return count;
  return FlopCount::from_wide(static_cast<Uint128>(std::round(count.to_double() * inside)));
}

struct TypeSum {
  TypedWork work;
  const ChosenPeak* peak = nullptr;
};

// What the calls needed, what they executed, and what that is of their peaks.
void count_flop(const Works& works, RankAttribution& rank) {
  std::map<std::optional<Precision>, TypeSum> by_type;
  for (const WorkCall& call : works.calls) {
    const CostEntry& entry = works.costs[call.cost];
    if (!entry.cost || call.inside <= 0) continue;
    FlopCount model =
        call.recomputed ? FlopCount(0) : share_of(entry.cost->model_flop, call.inside);
    FlopCount hardware = share_of(entry.cost->hardware_flop, call.inside);
    rank.model_flop = rank.model_flop.value_or(FlopCount(0)) + model;
    rank.hardware_flop = rank.hardware_flop.value_or(FlopCount(0)) + hardware;
    const ChosenPeak& peak = entry.peak[call.tf32];
    if (!peak.rate) continue;
    TypeSum& type = by_type[peak.precision];
    type.peak = &peak;
    type.work.peak = peak.rate;
    type.work.model_flop += model;
    type.work.hardware_flop = type.work.hardware_flop.value_or(FlopCount(0)) + hardware;
  }
  auto most = std::max_element(by_type.begin(), by_type.end(), [](const auto& a, const auto& b) {
    return *a.second.work.hardware_flop < *b.second.work.hardware_flop;
  });
  if (most == by_type.end() || *most->second.work.hardware_flop == FlopCount(0)) return;
  rank.precision = most->first;
  rank.peak = most->second.peak->rate;
  rank.peak_source = most->second.peak->source;
  UtilizationInput input{.duration = std::chrono::nanoseconds(rank.window.duration_ns())};
  for (const auto& [precision, type] : by_type) input.work.push_back(type.work);
  Result<Utilization> used = utilization_of(input);
  if (used.has_value()) {
    rank.mfu = used->mfu.value;
    rank.hfu = used->hfu->value;
  }
  for (const auto& [precision, type] : by_type) {
    if (type.peak->reason != PeakReason::wider_unit) continue;
    rank.notes.push_back({"held_against_wider",
                          {{"dtype", std::string(name_of(*precision))},
                           {"against", std::string(name_of(*type.peak->against))}}});
  }
  for (const auto& [precision, type] : by_type) {
    if (precision == most->first || *type.work.hardware_flop == FlopCount(0)) continue;
    rank.notes.push_back({"several_types",
                          {{"dtype", std::string(type_text(rank.precision))},
                           {"other", std::string(type_text(precision))},
                           {"peak_flop_per_s", type.work.peak->per_s}}});
  }
}

void use_given_flop(const AttributionOptions& options, RankAttribution& rank) {
  if (!options.model_flop_per_rank) return;
  rank.model_flop = options.model_flop_per_rank;
  Result<Utilization> used =
      utilization_of({.work = {{.model_flop = *rank.model_flop, .peak = rank.peak}},
                      .duration = std::chrono::nanoseconds(rank.window.duration_ns())});
  rank.mfu = used.has_value() ? std::optional(used->mfu.value) : std::nullopt;
  rank.notes.push_back({"model_given", {}});
}

// An MFU is never low in silence.
void note_unknown_flop(RankAttribution& rank) {
  std::int64_t unknown_ns = rank.ledger[LedgerLine::matmul_flop_unknown];
  if (rank.device && !rank.mfu && unknown_ns > 0) {
    rank.notes.push_back({"no_flop_known", {}});
    return;
  }
  if (!rank.mfu || 100 * unknown_ns <= rank.ledger.matmul_ns()) return;
  Note note{"lower_bound",
            {{"fraction",
              static_cast<double>(unknown_ns) / static_cast<double>(rank.ledger.matmul_ns())}}};
  if (!rank.coverage.uncounted.empty()) {
    const UncountedLine& most = rank.coverage.uncounted.front();  // of all, the longest
    if (2 * most.duration_ns > unknown_ns) {
      note.code = "lower_bound_by";
      note.values.emplace_back("calls", static_cast<std::int64_t>(most.calls));
      note.values.emplace_back("operator", printable(most.name, 100));
      note.values.emplace_back("reason", printable(most.reason, 200));
    }
  }
  rank.notes.push_back(std::move(note));
}

// MFU and the line matmul_at_peak are one number, but for calls that took less of the device's time
// than the peak allows (or where the model's own FLOPs were given): an algorithm that multiplies
// less than is counted (Winograd, FFT), or a matmul beside another on a second stream. The line
// holds no more than the time there was.
void note_faster_than_peak(const Works& works, RankAttribution& rank) {
  double window = static_cast<double>(rank.window.duration_ns());
  double fast_ns = 0;
  std::int64_t fast_calls = 0;
  double beside_ns = 0;
  for (const WorkCall& call : works.calls) {
    const CostEntry& entry = works.costs[call.cost];
    double ideal = call.recomputed ? 0 : ideal_ns(entry, call).value_or(0);
    double own = static_cast<double>(call.duration_ns) * call.inside;
    double attributed = static_cast<double>(call.attributed_ns);
    if (ideal > own) {
      fast_ns += ideal - own;
      ++fast_calls;
    }
    beside_ns += std::max(0.0, std::min(ideal, own) - attributed);
  }
  constexpr double kWorthTelling = 0.0005;
  auto given = [](const Note& note) { return note.code == "model_given"; };
  if (std::any_of(rank.notes.begin(), rank.notes.end(), given)) return;
  if (!rank.mfu || rank.counted || fast_ns + beside_ns < kWorthTelling * window) return;
  rank.notes.push_back(
      {"faster_than_peak",
       {{"mfu", *rank.mfu},
        {"at_peak_fraction", static_cast<double>(rank.ledger[LedgerLine::matmul_at_peak]) / window},
        {"calls", fast_calls},
        {"faster_fraction", fast_ns / window},
        {"beside_fraction", beside_ns / window}}});
}

void add_notes(const Trace& trace, const Works& works, const IdleTally& tally,
               RankAttribution& rank) {
  std::set<Assumption> assumed;
  for (const WorkCall& call : works.calls) {
    const CostEntry& entry = works.costs[call.cost];
    if (call.inside > 0 && entry.cost) assumed.insert(entry.cost->assumption);
  }
  for (Assumption each : assumed) {
    if (!describe(each).empty()) rank.notes.emplace_back(std::string(describe(each)));
  }
  note_unknown_flop(rank);
  if (rank.mfu && *rank.mfu > 1) {
    rank.notes.push_back(
        {"mfu_above_peak", {{"fraction", *rank.mfu}, {"peak_source", rank.peak_source}}});
  } else {
    note_faster_than_peak(works, rank);
  }
  std::int64_t unknown = rank.ledger[LedgerLine::idle_unknown];
  double window = static_cast<double>(rank.window.duration_ns());
  if (static_cast<double>(tally.graph_unknown_ns) > 0.02 * window) {
    rank.notes.push_back({"graph_kernels_lost", {{"duration_ns", tally.graph_unknown_ns}}});
  } else if (static_cast<double>(unknown) > 0.05 * window) {
    auto gap = std::find_if(rank.gaps.begin(), rank.gaps.end(),
                            [](const Gap& each) { return !each.reason.empty(); });
    if (gap != rank.gaps.end()) {
      rank.notes.push_back({"idle_for_no_reason",
                            {{"duration_ns", unknown},
                             {"longest_ns", gap->end_ns - gap->start_ns},
                             {"next", gap->next.substr(0, 60)},
                             {"reason", gap->reason}}});
    }
  }
  for (const std::string& note : trace.coverage.notes) rank.notes.emplace_back(note);
}

Result<RankAttribution> attribute_rank(RankWork& work, const AttributionOptions& options,
                                       bool several) {
  const Trace& trace = *work.trace;
  RankAttribution rank;
  rank.path = trace.info.path;
  rank.rank = trace.info.rank;
  rank.device_id = work.device;
  rank.cpu = work.cpu;
  rank.device_name = work.cpu ? "CPU" : device_name(trace, work.device);
  rank.device = options.device;
  if (!rank.device && !work.cpu)
    rank.device = known_device(options, trace, work.device, rank.device_name);
  PeakQuestion question{.device = rank.device ? &*rank.device : nullptr,
                        .given = options.peak,
                        .precision = options.precision};
  bool known = rank.device || options.peak;
  if (work.cpu) rank.notes.push_back({"cpu_is_the_device", {}});
  if (!known && work.cpu) {
    rank.notes.push_back({"no_peak_of_cpu", {}});
  } else if (!known && rank.device_name.empty()) {
    rank.notes.push_back({"no_device_named", {}});
  } else if (!known) {
    rank.notes.push_back({"device_not_known", {{"device", printable(rank.device_name)}}});
  }
  set_levels(trace, question, work.works);
  WindowPlan plan = MFU_TRY(plan_window(trace, work.works, options.window, work.cpu));
  rank.window = plan.window;
  rank.notes.insert(rank.notes.end(), plan.notes.begin(), plan.notes.end());
  set_inside(plan.window, work.works);
  rank.intervals = intervals_of(trace, work.works, plan.window, work.cpu);
  IdleTally tally;
  write_ledger(trace, work, plan, options, rank, tally);
  count_flop(work.works, rank);
  const ProfiledWindow* counted = counted_window(options, rank);
  if (counted != nullptr) {
    rank.counted = *counted;
    if (!rank.rank) rank.rank = counted->rank;
    use_counted(*counted, question, work.works, rank);
  }
  use_given_flop(options, rank);
  rank.operators = operators_of(trace, work.works, plan.window);
  rank.kernels = kernels_of(trace, work.works, plan.window, work.cpu);
  rank.coverage = coverage_of(trace, work.works, plan.window, work.cpu);
  if (rank.ledger[LedgerLine::matmul_flop_unknown] == 0) {  // the observer counted what they did
    std::erase_if(rank.coverage.uncounted,
                  [](const UncountedLine& each) { return each.reason == kNoOperator; });
  }
  if (options.timeline) rank.timeline = timeline_of(trace, work.works, plan.window, work.cpu);
  Situation situation{trace, work.works, rank, tally, several, options.peak.has_value(), counted};
  if (work.cpu) situation.settled = settled_of(trace, work.works, rank, counted);
  rank.findings = findings_of(situation);
  add_notes(trace, work.works, tally, rank);
  return rank;
}

Result<std::vector<RankWork>> works_of_all(std::span<const Trace> traces, Attribution& whole) {
  std::vector<RankWork> works;
  for (std::uint32_t number = 0; number < traces.size(); ++number) {
    const Trace& trace = traces[number];
    whole.partial = whole.partial || trace.coverage.truncated.has_value();
    for (std::int64_t device : devices_of(trace)) {
      works.push_back({&trace, number, device, false, works_of(trace, device)});
    }
    if (trace.device.size() == 0 && has_operators(trace)) {
      works.push_back({&trace, number, 0, true, cpu_works_of(trace)});
      if (works.back().works.spans.empty()) works.pop_back();
    }
  }
  if (works.empty()) {
    return fail(ErrorCode::malformed,
                fmt::format("{}: neither device events nor operators in it; record with "
                            "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
                            traces.empty() ? "no trace" : traces.front().info.path));
  }
  return works;
}

}  // namespace

Result<Attribution> attribute(std::span<const Trace> traces, const AttributionOptions& options) {
  Attribution whole;
  std::vector<RankWork> works = MFU_TRY(works_of_all(traces, whole));
  RankWaits matching = set_waits(traces, works);
  whole.notes.assign(matching.notes.begin(), matching.notes.end());
  double needed = 0;
  double window = 0;
  for (std::size_t i = 0; i < works.size(); ++i) {
    RankAttribution rank = MFU_TRY(attribute_rank(works[i], options, works.size() > 1));
    rank.communication_wait_ns = matching.waited_ns[i];
    works[i].works = {};
    whole.ledger += rank.ledger;
    if (rank.mfu) {
      needed += *rank.mfu * static_cast<double>(rank.window.duration_ns());
      window += static_cast<double>(rank.window.duration_ns());
    }
    whole.ranks.push_back(std::move(rank));
  }
  if (window > 0) whole.mfu = needed / window;
  if (matching.matched > 0) {
    auto most = std::max_element(matching.blamed_ns.begin(), matching.blamed_ns.end());
    if (*most > 0) whole.slowest = static_cast<std::size_t>(most - matching.blamed_ns.begin());
  } else if (works.size() > 1) {
    whole.notes.push_back({"no_collective_matched", {}});
  }
  whole.findings = findings_of_all(whole.ranks, whole.mfu);
  return whole;
}

Result<Attribution> attribute(const Traces& traces, const AttributionOptions& options) {
  return attribute(traces.all(), options);
}

}  // namespace mfu
