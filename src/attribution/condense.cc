#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "attribution/book.h"
#include "attribution/counted.h"
#include "attribution/habits.h"
#include "attribution/settled.h"
#include "attribution/sweep.h"
#include "attribution/tables.h"
#include "attribution/window.h"
#include "base/saturating.h"
#include "base/threads.h"

namespace mfu {

namespace {

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

// Finds what the trace says about the device.
void describe_device(const Trace& trace, RankPart& part) {
  part.device_name = part.cpu ? "CPU" : device_name(trace, part.device_id);
  for (const DeviceProperties& device : trace.info.devices) {
    if (device.id != part.device_id || device.name != part.device_name) continue;
    if (device.multiprocessors && *device.multiprocessors > 0) {
      part.units = static_cast<std::uint32_t>(*device.multiprocessors);
    }
    if (device.memory_bytes && *device.memory_bytes > 0) {
      part.memory_bytes = static_cast<std::uint64_t>(*device.memory_bytes);
    }
  }
}

// Splits the idle time of the steps. Where nothing runs does not depend on the levels.
void split_idle(const Trace& trace, const Works& works, const AttributionOptions& options,
                HostStates& states, RankPart& part) {
  Book book(std::move(part.steps));
  IdleSplitter idle(trace, works, options, part.cpu, states,
                    [&](std::int64_t from_ns, std::int64_t to_ns, LedgerLine line) {
                      book.charge(from_ns, to_ns, line);
                    });
  auto emit = [&](std::int64_t from_ns, std::int64_t to_ns, std::size_t level,
                  std::uint32_t owner) {
    if (level == 1) idle.split(from_ns, to_ns, owner);
  };
  Sweep<1, decltype(emit)> sweep(part.window.start_ns, part.window.end_ns, emit);
  for (std::uint32_t i = 0; i < works.spans.size(); ++i) {
    sweep.add(works.spans[i].start_ns, works.spans[i].end_ns, 0, i);
  }
  sweep.finish();
  part.steps = book.take();
  part.idle = idle.lines();
  part.gaps = idle.gaps();
  part.tally = idle.tally();
}

// Rows of RankPart::costs for the rows of `works`. A row is made when it is first asked for.
class KeptCosts {
 public:
  KeptCosts(const Works& works, RankPart& part)
      : works_(works), part_(part), rows_(works.costs.size(), kNone) {}
  // The cost must be known.
  std::uint32_t row(std::uint32_t cost) {
    if (rows_[cost] == kNone) {
      const OperatorCost& known = *works_.costs[cost].cost;
      rows_[cost] = static_cast<std::uint32_t>(part_.costs.size());
      part_.costs.push_back({known.model_flop, known.hardware_flop,
                             known.read_bytes.value_or(0) + known.written_bytes.value_or(0),
                             known.compute_type});
    }
    return rows_[cost];
  }

 private:
  const Works& works_;
  RankPart& part_;
  std::vector<std::uint32_t> rows_;
};

// Keeps the calls whose FLOPs count. Returns the new index of each call of `works`, kNone for the
// others.
std::vector<std::uint32_t> keep_calls(const Works& works, KeptCosts& costs, RankPart& part) {
  std::vector<std::uint32_t> kept(works.calls.size(), kNone);
  for (std::size_t i = 0; i < works.calls.size(); ++i) {
    const WorkCall& call = works.calls[i];
    if (!works.costs[call.cost].cost || call.recomputed || call.inside <= 0) continue;
    kept[i] = static_cast<std::uint32_t>(part.calls.size());
    part.calls.push_back({costs.row(call.cost), call.tf32, call.duration_ns, call.inside, 0});
  }
  return kept;
}

// Keeps the spans in the window. Only calls and collectives are ever looked up, so other neighbours
// of the same level are joined.
void keep_spans(const Works& works, const std::vector<std::uint32_t>& calls,
                const std::vector<std::uint32_t>& place_of, RankPart& part) {
  std::array<std::uint32_t, kLevelCount> open{};  // the last span of each level
  open.fill(kNone);
  for (const WorkSpan& span : works.spans) {
    std::int64_t from_ns = std::max(span.start_ns, part.window.start_ns);
    std::int64_t to_ns = std::min(span.end_ns, part.window.end_ns);
    if (to_ns <= from_ns) continue;
    PartSpan kept{from_ns, to_ns, span.level, kNone, kNone};
    std::uint32_t& last = open[static_cast<std::size_t>(span.level)];
    bool alone = false;
    if (span.level == Level::matmul) {
      kept.call = calls[span.call];
      alone = true;
    } else if (span.level == Level::communication && !part.cpu) {
      kept.start_ns = span.start_ns;
      kept.end_ns = span.end_ns;
      kept.place = place_of[span.event];
      alone = true;
    }
    if (!alone && last != kNone && from_ns <= part.spans[last].end_ns) {
      part.spans[last].end_ns = std::max(part.spans[last].end_ns, to_ns);
      continue;
    }
    last = static_cast<std::uint32_t>(part.spans.size());
    part.spans.push_back(kept);
  }
}

FlopCount share_of(FlopCount count, double inside) {
  if (inside >= 1) return count;
  return FlopCount::from_wide(static_cast<Uint128>(std::round(count.to_double() * inside)));
}

// Sums by type what the calls needed and executed, and notes what had to be assumed.
void sum_flop(const Works& works, RankPart& part) {
  std::set<Assumption> assumed;
  for (const WorkCall& call : works.calls) {
    const CostEntry& entry = works.costs[call.cost];
    if (!entry.cost || call.inside <= 0) continue;
    assumed.insert(entry.cost->assumption);
    PeakKey key{entry.cost->compute_type, call.tf32};
    auto same = std::find_if(part.flop.begin(), part.flop.end(),
                             [&](const PartFlop& flop) { return flop.key == key; });
    if (same == part.flop.end()) same = part.flop.insert(same, {key, {}, {}});
    if (!call.recomputed) same->model_flop += share_of(entry.cost->model_flop, call.inside);
    same->hardware_flop += share_of(entry.cost->hardware_flop, call.inside);
    std::rotate(same, same + 1, part.flop.end());
  }
  for (Assumption each : assumed) {
    if (each != Assumption::none) part.assumptions.emplace_back(name_of(each));
  }
}

// For each span, the time of the longest operator inside it that calls no other operators.
std::vector<std::int64_t> longest_inside(const Trace& trace, const Works& works) {
  std::vector<std::uint32_t> around(trace.host.size(), kNone);  // the span of each row
  std::vector<bool> calls_others(trace.host.size());
  for (std::uint32_t i = 0; i < works.spans.size(); ++i) around[works.spans[i].event] = i;
  std::vector<std::int64_t> longest(works.spans.size());
  for (std::uint32_t row = 0; row < trace.host.size(); ++row) {  // outer rows first
    std::uint32_t parent = trace.host.parent[row];
    if (parent == kNone) continue;
    if (around[row] == kNone) around[row] = around[parent];
    if (trace.host.kind[row] == HostKind::op) calls_others[parent] = true;
  }
  for (std::uint32_t row = 0; row < trace.host.size(); ++row) {
    if (around[row] == kNone || calls_others[row]) continue;
    std::int64_t& most = longest[around[row]];
    most = std::max(most, trace.host.duration_ns[row]);
  }
  return longest;
}

std::int64_t fusible_ns(const Trace& trace, const Works& works, const Settled& settled,
                        const Updates& updates) {
  std::vector<std::int64_t> longest = longest_inside(trace, works);
  std::int64_t all = 0;
  std::int64_t in_row = 0;
  std::int64_t needed = 0;
  for (std::size_t i = 0; i < works.spans.size(); ++i) {
    const WorkSpan& span = works.spans[i];
    if (settled.own_ns[i] == 0) continue;
    if (span.level != Level::other || span.call != kNone || updates.contains(span.event) ||
        reads_value(trace.text(trace.host.name[span.event]))) {
      all = saturating_sum(all, std::max<std::int64_t>(0, in_row - needed));
      in_row = needed = 0;
      continue;
    }
    in_row =
        saturating_sum(in_row, std::max<std::int64_t>(0, settled.own_ns[i] - settled.overhead_ns));
    needed = std::max(needed, std::min(longest[i], settled.own_ns[i]));
  }
  return saturating_sum(all, std::max<std::int64_t>(0, in_row - needed));
}

// Adds one operator, with its overhead if that is known without a peak.
void add_operator(HostUse::Operators& sum, std::int64_t own_ns, std::int64_t overhead_ns) {
  ++sum.count;
  sum.own_ns = saturating_sum(sum.own_ns, own_ns);
  sum.overhead_ns = saturating_sum(sum.overhead_ns, overhead_ns);
}

HostUse host_use(const Trace& trace, const Works& works, const Settled& settled,
                 const RankPart& part, KeptCosts& costs) {
  HostUse use;
  use.most_overhead_ns = settled.overhead_ns;
  use.stretch = settled.stretch;
  Updates updates(trace, works);
  use.optimizer_ns = updates.inside_ns(part.window);
  use.fusible_ns = fusible_ns(trace, works, settled, updates);
  std::uint64_t steps = std::max<std::size_t>(part.steps.size(), 1);
  use.rows_taken = rows_taken(trace, works, part.window, steps);
  use.cells_called = cells_called(trace, works, part.window, steps);
  std::map<std::uint32_t, std::uint64_t> by_name;
  for (std::size_t i = 0; i < works.spans.size(); ++i) {
    const WorkSpan& span = works.spans[i];
    std::int64_t ns = settled.own_ns[i];
    if (ns == 0) continue;
    bool in_optimizer = updates.contains(span.event);
    const WorkCall* call = span.call == kNone ? nullptr : &works.calls[span.call];
    bool known = call != nullptr && works.costs[call->cost].cost.has_value();
    std::int64_t overhead_ns = known ? 0 : std::min(ns, settled.overhead_ns);
    if (known) {
      use.calls.push_back(
          {costs.row(call->cost), call->tf32, call->recomputed, in_optimizer, call->inside, ns});
    }
    std::uint32_t name = trace.host.name[span.event];
    if (in_optimizer) {
      add_operator(use.optimizer, ns, overhead_ns);
      use.optimizer_held_up_ns = saturating_sum(use.optimizer_held_up_ns, settled.held_up_ns[i]);
      use.optimizer_tensors = std::max(use.optimizer_tensors, ++by_name[name]);
      if (updates.by_hand(span.event)) ++use.by_hand;
    }
    if (span.level == Level::communication) continue;
    add_operator(use.all, ns, overhead_ns);
    if (span.level == Level::recomputation) {
      use.recomputed_ns = saturating_sum(use.recomputed_ns, ns);
    }
    if (in_optimizer) continue;
    add_operator(use.others, ns, overhead_ns);
    if (reads_value(trace.text(name))) ++use.items;
  }
  return use;
}

// The inputs that all ranks of a trace share.
struct Material {
  const Trace& trace;
  const AttributionOptions& options;
  HostStates& states;
  const std::vector<std::uint32_t>& place_of;  // among communicating device events
  unsigned threads = 1;
};

Result<RankPart> condense_rank(const Material& of, Works works, std::int64_t device, bool cpu) {
  const auto& [trace, options, states, place_of, threads] = of;
  RankPart part;
  part.device_id = device;
  part.cpu = cpu;
  describe_device(trace, part);
  classify_calls(trace, works);
  WindowPlan plan = MFU_TRY(
      plan_window(trace, works, options.window, cpu, counted_window(options, trace.info.path)));
  part.window = plan.window;
  part.window_notes = std::move(plan.notes);
  part.steps_marked = !plan.steps.empty();
  part.steps = std::move(plan.steps);
  if (part.steps.empty()) {
    StepLedger& whole = part.steps.emplace_back();
    whole.start_ns = part.window.start_ns;
    whole.end_ns = part.window.end_ns;
  }
  set_inside(part.window, works);
  KeptCosts costs(works, part);
  auto keep = [&] {
    keep_spans(works, keep_calls(works, costs, part), place_of, part);
    sum_flop(works, part);
  };
  auto draw = [&] {
    if (options.timeline) part.timeline = timeline_of(trace, works, part.window, cpu);
  };
  // Each task writes other members of the part.
  run_tasks(threads, {[&] { split_idle(trace, works, options, states, part); }, draw, keep,
                      [&] { part.intervals = intervals_of(trace, works, part.window, cpu); },
                      [&] { part.kernels = kernels_of(trace, works, part.window, cpu); },
                      [&] { part.coverage = coverage_of(trace, works, part.window, cpu); },
                      [&] { part.operators = operators_of(trace, works); }});
  if (cpu) {
    Settled settled = settled_of(trace, works, part, counted_window(options, trace.info.path));
    part.host = host_use(trace, works, settled, part, costs);
  }
  return part;
}

// Finds what the names in a trace tell about the program.
void read_names(const Trace& trace, TraceOutline& outline) {
  for (std::uint32_t text = 0; text < trace.text_count(); ++text) {
    std::string_view name = trace.text(text);
    outline.optimizer = outline.optimizer || name.starts_with("Optimizer.step");
    outline.compiled = outline.compiled || name.starts_with("Torch-Compiled Region") ||
                       name.find("CompiledFxGraph") != std::string_view::npos ||
                       name.starts_with("CompiledFunction") || name.starts_with("triton_");
  }
}

TraceOutline outline_of(const Trace& trace, const std::vector<std::int64_t>& devices) {
  TraceOutline outline;
  outline.path = trace.info.path;
  outline.rank = trace.info.rank;
  outline.world_size = trace.info.world_size;
  outline.json_bytes = trace.coverage.json_bytes;
  outline.truncated = trace.coverage.truncated.has_value();
  outline.notes = trace.coverage.notes;
  outline.secrets = trace.coverage.secrets;
  outline.communication = communication_of(trace);
  for (const CommunicationEvent& event : outline.communication.events) {
    auto at = std::find(devices.begin(), devices.end(), trace.lanes[event.lane].device);
    outline.communicating.push_back(static_cast<std::uint32_t>(at - devices.begin()));
  }
  read_names(trace, outline);
  return outline;
}

}  // namespace

Result<TracePart> condense(const Trace& trace, const AttributionOptions& options,
                           unsigned threads) {
  std::vector<std::int64_t> devices = devices_of(trace);
  TracePart part;
  HostStates states(trace, options.interpreter_ns);
  bool of_cpu = trace.device.size() == 0 && has_operators(trace);
  Works first;
  std::vector<std::function<void()>> tasks = {[&] {
    if (!devices.empty()) first = works_of(trace, devices.front());
    if (of_cpu) first = cpu_works_of(trace);
  }};
  for (std::uint32_t i = 0; threads > 1 && i < trace.threads.size(); ++i) {
    bool launches = trace.threads[i].launch_begin < trace.threads[i].launch_end;
    if (launches) tasks.emplace_back([&states, i] { states.prepare(i); });
  }
  tasks.emplace_back([&] { part.outline = outline_of(trace, devices); });
  run_tasks(threads, tasks);
  std::vector<std::uint32_t> place_of(trace.device.size(), kNone);
  const std::vector<CommunicationEvent>& events = part.outline.communication.events;
  for (std::uint32_t i = 0; i < events.size(); ++i) place_of[events[i].event] = i;
  Material material{trace, options, states, place_of, threads};
  bool has_first = of_cpu ? !first.spans.empty() : !devices.empty();
  if (has_first) {
    std::int64_t device = of_cpu ? 0 : devices.front();
    part.ranks.push_back(MFU_TRY(condense_rank(material, std::move(first), device, of_cpu)));
  }
  for (std::size_t i = 1; i < devices.size(); ++i) {
    Works works = works_of(trace, devices[i]);
    part.ranks.push_back(MFU_TRY(condense_rank(material, std::move(works), devices[i], false)));
  }
  part.outline.ranks = part.ranks.size();
  return part;
}

}  // namespace mfu
