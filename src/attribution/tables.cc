#include "attribution/tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "attribution/idle.h"
#include "attribution/sweep.h"
#include "base/saturating.h"
#include "base/text.h"

namespace mfu {

namespace {

constexpr std::size_t kKernelsKept = 200;
constexpr std::size_t kOperatorsKept = 500;
constexpr std::size_t kUncountedKept = 50;

// A union of intervals that grows from the left.
struct Union {
  std::int64_t ns = 0, reached = INT64_MIN;
  void add(std::int64_t from, std::int64_t to) {
    from = std::max(from, reached);
    if (to <= from) return;
    ns += to - from;
    reached = to;
  }
};

enum Side : std::size_t { compute, communication, copy };

Side side_of(Level level) {
  if (level == Level::communication) return communication;
  return level == Level::copy ? copy : compute;
}

std::string_view kind_of(const Trace& trace, const WorkSpan& span, bool cpu) {
  if (span.level == Level::communication) return "communication";
  if (!cpu && trace.device.kind[span.event] == DeviceKind::memcpy) return "memcpy";
  if (!cpu && trace.device.kind[span.event] == DeviceKind::memset) return "memset";
  bool matmul = span.call != kNone || span.level == Level::matmul_unknown;
  return matmul ? "matmul" : "compute";
}

}  // namespace

Intervals intervals_of(const Trace& trace, const Works& works, const Window& window, bool cpu) {
  Intervals sums;
  std::array<std::int64_t, 4> owned{};
  std::array<Union, 3> unions;
  auto emit = [&](std::int64_t from, std::int64_t to, std::size_t side, std::uint32_t) {
    owned[side] += to - from;
  };
  Sweep<3, decltype(emit)> sweep(window.start_ns, window.end_ns, emit);
  for (std::uint32_t i = 0; i < works.spans.size(); ++i) {
    const WorkSpan& span = works.spans[i];
    std::int64_t end = span.end_ns;
    if (!cpu) end = span.start_ns + std::max<std::int64_t>(trace.device.duration_ns[span.event], 0);
    sweep.add(span.start_ns, end, side_of(span.level), i);
    unions[side_of(span.level)].add(std::max(span.start_ns, window.start_ns),
                                    std::min(end, window.end_ns));
  }
  sweep.finish();
  sums.compute_ns = unions[compute].ns;
  sums.communication_ns = unions[communication].ns;
  sums.copy_ns = unions[copy].ns;
  sums.exposed_communication_ns = owned[communication];
  sums.exposed_copy_ns = owned[copy];
  sums.idle_ns = owned[3];
  sums.busy_ns = window.duration_ns() - sums.idle_ns;
  return sums;
}

void set_inside(const Window& window, Works& works) {
  std::vector<std::int64_t> inside(works.calls.size());
  for (const WorkSpan& span : works.spans) {
    if (span.call == kNone || span.level == Level::communication) continue;
    inside[span.call] = saturating_sum(inside[span.call], inside_ns(span, window));
  }
  for (std::size_t i = 0; i < works.calls.size(); ++i) {
    WorkCall& call = works.calls[i];
    if (call.duration_ns > 0) {
      call.inside = static_cast<double>(inside[i]) / static_cast<double>(call.duration_ns);
    }
  }
}

namespace {

struct OperatorSum {
  std::uint64_t calls = 0, recomputed = 0;
  double flop = 0, duration_ns = 0;
  Uint128 whole_flop = 0;
  double bytes = 0;
  std::uint32_t host = kNone;
};

PartOperator line_of(const Trace& trace, const CostEntry& entry, bool tf32,
                     const OperatorSum& sum) {
  PartOperator found;
  OperatorLine& line = found.line;
  line.name = printable(trace.text(entry.name), 200);
  line.shapes = shapes_text(trace.text(entry.inputs));
  line.calls = sum.calls;
  line.recomputed_calls = sum.recomputed;
  line.duration_ns = static_cast<std::int64_t>(std::round(sum.duration_ns));
  if (sum.host != kNone) line.code = printable(trace.text(user_frame(trace, sum.host)), 200);
  if (!entry.cost) return found;
  ElementType type = entry.cost->compute_type;
  found.counted = true;
  found.key = {type, tf32};
  line.dtype = std::string(tf32 && type == ElementType::fp32 ? "tf32" : name_of(type));
  line.flop = FlopCount::from_wide(sum.whole_flop);
  if (entry.cost->read_bytes && entry.cost->written_bytes) {
    line.bytes = static_cast<std::uint64_t>(std::round(sum.bytes));
  }
  if (sum.duration_ns >= 1) line.rate = FlopRate{sum.flop * 1e9 / sum.duration_ns};
  return found;
}

// For each row of the host, the row of the nearest span around it. A row comes after the rows that
// enclose it.
std::vector<std::uint32_t> spans_around(const Trace& trace, const Works& works) {
  std::vector<bool> taken(trace.host.size());
  for (const WorkSpan& span : works.spans) taken[span.event] = true;
  std::vector<std::uint32_t> around(trace.host.size(), kNone);
  for (std::size_t row = 0; row < around.size(); ++row) {
    std::uint32_t parent = trace.host.parent[row];
    if (parent != kNone) around[row] = taken[parent] ? parent : around[parent];
  }
  return around;
}

}  // namespace

std::vector<PartOperator> operators_of(const Trace& trace, const Works& works) {
  std::unordered_map<std::uint64_t, OperatorSum> sums;
  for (const WorkCall& call : works.calls) {
    if (call.inside <= 0) continue;
    const CostEntry& entry = works.costs[call.cost];
    OperatorSum& sum = sums[(std::uint64_t{call.cost} << 1) | (call.tf32 ? 1 : 0)];
    ++sum.calls;
    sum.recomputed += call.recomputed ? 1 : 0;
    sum.duration_ns += static_cast<double>(call.duration_ns) * call.inside;
    sum.host = std::min(sum.host, call.host);
    if (!entry.cost) continue;
    // A call that lies wholly inside the window counts to the last digit.
    if (call.inside >= 1) {
      sum.whole_flop += entry.cost->hardware_flop.wide();
    } else {
      sum.whole_flop +=
          static_cast<Uint128>(std::round(entry.cost->hardware_flop.to_double() * call.inside));
    }
    sum.flop += entry.cost->hardware_flop.to_double() * call.inside;
    sum.bytes += call.inside * static_cast<double>(entry.cost->read_bytes.value_or(0) +
                                                   entry.cost->written_bytes.value_or(0));
  }
  std::vector<PartOperator> lines;
  for (const auto& [key, sum] : sums) {
    lines.push_back(line_of(trace, works.costs[key >> 1], (key & 1) != 0, sum));
  }
  std::sort(lines.begin(), lines.end(), [](const PartOperator& left, const PartOperator& right) {
    const OperatorLine &a = left.line, &b = right.line;
    if (a.duration_ns != b.duration_ns) return a.duration_ns > b.duration_ns;
    return std::tie(a.name, a.shapes, a.dtype) < std::tie(b.name, b.shapes, b.dtype);
  });
  if (lines.size() > kOperatorsKept) lines.resize(kOperatorsKept);
  return lines;
}

std::vector<KernelLine> kernels_of(const Trace& trace, const Works& works, const Window& window,
                                   bool cpu) {
  struct Sum {
    std::uint64_t calls = 0;
    std::int64_t duration_ns = 0;
    std::string_view kind;
  };
  std::unordered_map<std::uint32_t, Sum> sums;
  std::vector<std::uint32_t> around;
  if (cpu) around = spans_around(trace, works);
  for (const WorkSpan& span : works.spans) {
    std::int64_t ns = inside_ns(span, window);
    if (ns <= 0) continue;
    Sum& sum = sums[cpu ? trace.host.name[span.event] : trace.device.name[span.event]];
    ++sum.calls;
    sum.duration_ns = saturating_sum(sum.duration_ns, ns);
    if (sum.kind.empty() || sum.kind == "compute") sum.kind = kind_of(trace, span, cpu);
    // Operators are nested. Each is reported with its own time only.
    std::uint32_t outer = cpu ? around[span.event] : kNone;
    if (outer == kNone) continue;
    Sum& enclosing = sums[trace.host.name[outer]];
    enclosing.duration_ns = saturating_sum(enclosing.duration_ns, -ns);
  }
  std::erase_if(sums, [](const auto& entry) { return entry.second.calls == 0; });
  for (auto& [name, sum] : sums) sum.duration_ns = std::max<std::int64_t>(sum.duration_ns, 0);
  std::vector<std::pair<std::uint32_t, Sum>> order(sums.begin(), sums.end());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second.duration_ns != b.second.duration_ns
               ? a.second.duration_ns > b.second.duration_ns
               : a.first < b.first;
  });
  if (order.size() > kKernelsKept) order.resize(kKernelsKept);
  std::vector<KernelLine> lines;
  for (const auto& [name, sum] : order) {
    lines.push_back(
        {printable(trace.text(name), 400), std::string(sum.kind), sum.calls, sum.duration_ns});
  }
  return lines;
}

AttributionCoverage coverage_of(const Trace& trace, const Works& works, const Window& window,
                                bool cpu) {
  AttributionCoverage coverage;
  double total = 0;
  double linked = 0;
  double shaped = 0;
  double graphed = 0;
  std::size_t clip = 0;
  for (const WorkSpan& span : works.spans) {
    if (span.end_ns < window.start_ns || span.start_ns > window.end_ns) continue;
    ++coverage.gpu_events;
    double ns = static_cast<double>(inside_ns(span, window));
    total += ns;
    std::uint32_t host = span.event;
    if (!cpu) {
      while (clip < trace.clips.size() && trace.clips[clip].event < span.event) ++clip;
      if (clip < trace.clips.size() && trace.clips[clip].event == span.event) {
        ++coverage.clipped_events;
      }
      std::uint32_t launch = trace.device.launch[span.event];
      if (launch == kNone) continue;
      if (trace.launches.kind[launch] == LaunchKind::graph) graphed += ns;
      host = trace.device.host[span.event];
      linked += ns;
    } else {
      linked += ns;
    }
    bool shapes = host != kNone && trace.host.inputs[host] != kNone;
    if (span.call != kNone && span.level != Level::communication) {
      shapes = works.costs[works.calls[span.call].cost].inputs != kNone;
    }
    if (shapes) shaped += ns;
  }
  if (cpu) coverage.gpu_events = 0;
  coverage.skipped_events = trace.coverage.skipped_events;
  if (total > 0) {
    coverage.linked_fraction = linked / total;
    coverage.with_shapes_fraction = shaped / total;
    coverage.graph_launched_fraction = graphed / total;
  }
  coverage.uncounted = works.uncounted;
  if (coverage.uncounted.size() > kUncountedKept) coverage.uncounted.resize(kUncountedKept);
  return coverage;
}

}  // namespace mfu
