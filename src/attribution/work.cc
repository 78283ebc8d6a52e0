#include "attribution/work.h"

#include <algorithm>
#include <map>

#include "base/saturating.h"

namespace mfu {

namespace {

// What the host events around a launch say about it.
struct Origin {
  std::uint32_t counted = kNone;  // outermost leaf or cover whose cost is known
  std::uint32_t wrapper = kNone;  // innermost wrapper that has a formula, if nothing else counts
  std::uint32_t unknown = kNone;  // outermost operator that seems to have FLOPs and is in no table
  bool recomputed = false;
};

Origin origin_of(const Trace& trace, CostTable& table, std::uint32_t host) {
  Origin origin;
  bool costed = false;
  for (std::uint32_t row = host; row != kNone; row = trace.host.parent[row]) {
    if (trace.host.kind[row] != HostKind::op) continue;
    origin.recomputed = origin.recomputed || trace.host.recomputed[row] != 0;
    std::uint32_t name = trace.host.name[row];
    const Operator* op = table.operator_of(name);
    if (op == nullptr) {
      if (table.looks_flop_carrying(name)) origin.unknown = row;
    } else if (op->role == OperatorRole::leaf || op->role == OperatorRole::cover) {
      bool cost = table.costs()[table.cost_row(row)].cost.has_value();
      if (cost || !costed) origin.counted = row;
      costed = costed || cost;
    } else if (op->role == OperatorRole::wrapper && op->formula != nullptr) {
      if (origin.wrapper == kNone) origin.wrapper = row;
    } else if (op->role == OperatorRole::uncounted) {
      origin.unknown = row;
    }
  }
  return origin;
}

struct Served {  // a device event, and the host row whose call it served
  std::uint32_t host = kNone, span = kNone;
  bool recomputed = false;
};

// Spans of the device's events. Durations are cut where the next event of the stream begins.
std::vector<WorkSpan> device_spans(const Trace& trace, std::int64_t device) {
  std::vector<WorkSpan> spans;
  spans.reserve(trace.device.size());
  std::size_t clip = 0;
  for (std::size_t i = 0; i < trace.device.size(); ++i) {
    while (clip < trace.clips.size() && trace.clips[clip].event < i) ++clip;
    if (trace.lanes[trace.device.lane[i]].device != device) continue;
    std::int64_t duration = trace.device.duration_ns[i];
    if (clip < trace.clips.size() && trace.clips[clip].event == i) {
      duration = trace.clips[clip].duration_ns;
    }
    WorkSpan& span = spans.emplace_back();
    span.start_ns = trace.device.start_ns[i];
    span.end_ns = span.start_ns + std::max<std::int64_t>(duration, 0);
    span.event = static_cast<std::uint32_t>(i);
    switch (trace.device.kind[i]) {
      case DeviceKind::compute:
        span.level = Level::other;
        break;
      case DeviceKind::communication:
        span.level = Level::communication;
        break;
      default:
        span.level = Level::copy;
    }
  }
  return spans;
}

void add_calls(const Trace& trace, CostTable& table, std::vector<Served>& served, Works& works) {
  std::sort(served.begin(), served.end(), [](const Served& a, const Served& b) {
    return a.host != b.host ? a.host < b.host : a.span < b.span;
  });
  for (const Served& each : served) {
    if (works.calls.empty() || works.calls.back().host != each.host) {
      WorkCall& call = works.calls.emplace_back();
      call.host = each.host;
      call.cost = table.cost_row(each.host);
    }
    WorkCall& call = works.calls.back();
    WorkSpan& span = works.spans[each.span];
    span.call = static_cast<std::uint32_t>(works.calls.size() - 1);
    call.recomputed = call.recomputed || each.recomputed;
    call.tf32 = call.tf32 || table.is_tf32_kernel(trace.device.name[span.event]);
    call.duration_ns = saturating_sum(call.duration_ns, span.end_ns - span.start_ns);
  }
}

void add_span(UncountedLine& line, const WorkSpan& span) {
  ++line.calls;
  line.duration_ns = saturating_sum(line.duration_ns, span.end_ns - span.start_ns);
}

void add_uncounted(const Trace& trace, const std::map<std::uint32_t, UncountedLine>& lines,
                   CostTable& table, Works& works) {
  for (const auto& [name, line] : lines) {
    UncountedLine named = line;
    named.name = std::string(trace.text(name));
    const Operator* op = table.operator_of(name);
    named.reason = op != nullptr && !op->note.empty() ? std::string(op->note)
                                                      : "not in the table of operators";
    works.uncounted.push_back(std::move(named));
  }
}

}  // namespace

Works works_of(const Trace& trace, std::int64_t device) {
  Works works;
  works.spans = device_spans(trace, device);
  CostTable table(trace);
  std::vector<Served> served;
  std::vector<Served> undecided;      // matmuls by their kernel's name, inside a wrapper
  std::vector<std::uint32_t> opened;  // wrappers that contain something counted
  std::map<std::uint32_t, UncountedLine> uncounted, kernels;
  std::uint32_t last_unknown = kNone;
  for (std::uint32_t i = 0; i < works.spans.size(); ++i) {
    WorkSpan& span = works.spans[i];
    std::uint32_t name = trace.device.name[span.event];
    std::uint32_t host = trace.device.host[span.event];
    if (span.level != Level::other) continue;
    if (table.is_matmul_kernel(name)) span.level = Level::matmul_unknown;
    bool unknown = span.level == Level::matmul_unknown;
    if (host == kNone) {
      if (unknown) add_span(kernels[name], span);
      continue;
    }
    Origin origin = origin_of(trace, table, host);
    if (origin.counted != kNone) {
      served.push_back({origin.counted, i, origin.recomputed});
      if (origin.wrapper != kNone) opened.push_back(origin.wrapper);
    } else if (origin.wrapper != kNone && span.level == Level::matmul_unknown) {
      undecided.push_back({origin.wrapper, i, origin.recomputed});
    } else if (origin.unknown != kNone && span.level == Level::matmul_unknown) {
      UncountedLine& line = uncounted[trace.host.name[origin.unknown]];
      if (origin.unknown != last_unknown) ++line.calls;
      line.duration_ns = saturating_sum(line.duration_ns, span.end_ns - span.start_ns);
      last_unknown = origin.unknown;
    } else if (unknown) {
      add_span(kernels[name], span);
    }
    if (origin.recomputed) span.level = Level::recomputation;
  }
  std::sort(opened.begin(), opened.end());
  for (const Served& each : undecided) {
    if (!std::binary_search(opened.begin(), opened.end(), each.host)) served.push_back(each);
  }
  add_calls(trace, table, served, works);
  add_uncounted(trace, uncounted, table, works);
  for (auto& [name, line] : kernels) {
    line.name = std::string(trace.text(name));
    line.reason = kNoOperator;
    works.uncounted.push_back(std::move(line));
  }
  works.costs = table.take();
  return works;
}

void classify_calls(const Trace& trace, Works& works) {
  std::map<std::uint32_t, UncountedLine> uncounted;
  for (const WorkCall& call : works.calls) {
    const CostEntry& entry = works.costs[call.cost];
    if (entry.cost) continue;
    UncountedLine& line = uncounted[call.cost];
    ++line.calls;
    line.duration_ns = saturating_sum(line.duration_ns, call.duration_ns);
  }
  for (auto& [cost, line] : uncounted) {
    const CostEntry& entry = works.costs[cost];
    std::string name(trace.text(entry.name));
    auto same = std::find_if(works.uncounted.begin(), works.uncounted.end(),
                             [&](const UncountedLine& known) {
                               return known.name == name && known.reason == entry.reason;
                             });
    if (same == works.uncounted.end()) {
      line.name = std::move(name);
      line.reason = entry.reason;
      works.uncounted.push_back(line);
    } else {
      same->calls += line.calls;
      same->duration_ns = saturating_sum(same->duration_ns, line.duration_ns);
    }
  }
  std::sort(works.uncounted.begin(), works.uncounted.end(),
            [](const UncountedLine& a, const UncountedLine& b) {
              return a.duration_ns != b.duration_ns ? a.duration_ns > b.duration_ns
                                                    : a.name < b.name;
            });
  for (WorkSpan& span : works.spans) {
    if (span.call == kNone || span.level == Level::communication) continue;
    const WorkCall& call = works.calls[span.call];
    const CostEntry& entry = works.costs[call.cost];
    if (call.recomputed) {
      span.level = Level::recomputation;
    } else if (entry.cost) {
      span.level = Level::matmul;
    } else {
      span.level = Level::matmul_unknown;
    }
  }
}

}  // namespace mfu
