#include "trace/link.h"

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <vector>

#include "base/threads.h"

namespace mfu {
namespace {

// With fewer rows than this, a thread costs more than it saves.
#ifdef MFU_FUZZED
constexpr std::size_t kRowsWorthThreads = 16;
#else
constexpr std::size_t kRowsWorthThreads = 1u << 14;
#endif

// The host events of one thread that are open at a time, innermost last.
class OpenEvents {
 public:
  OpenEvents(const HostEvents& host, std::int64_t slack_ns) : host_(host), slack_ns_(slack_ns) {}

  // Closes what ended at or before this time.
  void advance(std::int64_t time_ns) {
    while (!open_.empty() && end_of(open_.back()) <= time_ns) open_.pop_back();
  }
  std::uint32_t innermost() const { return open_.empty() ? kNone : open_.back(); }
  // Opens a row inside the events that contain all of it. An event that it overlaps without being
  // inside is closed.
  std::uint32_t open(std::uint32_t row) {
    advance(host_.start_ns[row]);
    while (!open_.empty() && end_of(open_.back()) + slack_ns_ < end_of(row)) open_.pop_back();
    std::uint32_t parent = innermost();
    open_.push_back(row);
    return parent;
  }

 private:
  std::int64_t end_of(std::uint32_t row) const {
    return host_.start_ns[row] + host_.duration_ns[row];
  }
  const HostEvents& host_;
  std::int64_t slack_ns_;
  std::vector<std::uint32_t> open_;
};

// Some correlation ids are only in arrows: device event ← flow id → launch.
void correlate_by_flows(Trace& trace, Unlinked& unlinked) {
  DeviceEvents& device = trace.device;
  Column<FlowEnd>& flows = unlinked.launch_flows;
  auto by_place = [](const FlowEnd& a, const FlowEnd& b) {
    return std::tie(a.start, a.where, a.time_ns, a.id) <
           std::tie(b.start, b.where, b.time_ns, b.id);
  };
  std::sort(flows.data(), flows.data() + flows.size(), by_place);
  auto id_at = [&](bool start, std::uint32_t where, std::int64_t time_ns) {
    FlowEnd wanted{.id = INT64_MIN, .time_ns = time_ns, .where = where, .start = start};
    const FlowEnd* found = std::lower_bound(flows.begin(), flows.end(), wanted, by_place);
    bool there = found != flows.end() && found->start == start && found->where == where &&
                 found->time_ns == time_ns;
    return there ? found->id : kNoId;
  };
  for (std::size_t i = 0; i < device.size(); ++i) {
    if (device.correlation[i] == kNoId) {
      device.correlation[i] = id_at(false, device.lane[i], device.start_ns[i]);
    }
  }
  Launches& launches = trace.launches;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    if (launches.correlation[i] == kNoId) {
      launches.correlation[i] = id_at(true, launches.thread[i], launches.start_ns[i]);
    }
  }
}

// Runtime calls that give work to the device come before those that only ask.
void index_launches(const Launches& launches, IdIndex& index) {
  index.prepare();
  for (bool launching : {true, false}) {
    for (std::uint32_t row = 0; row < launches.size(); ++row) {
      bool other =
          launches.kind[row] == LaunchKind::other || launches.kind[row] == LaunchKind::synchronize;
      if (other != launching) index.add(row);
    }
  }
}

void index_operators(const HostEvents& host, IdIndex& index) {
  index.prepare();
  for (std::uint32_t row = 0; row < host.size(); ++row) {
    if (host.kind[row] == HostKind::op) index.add(row);
  }
}

}  // namespace

void nest_host_events(Trace& trace, bool whole_microseconds, unsigned threads) {
  HostEvents& host = trace.host;
  Launches& launches = trace.launches;
  host.parent.resize_uninitialized(host.size());
  launches.host.resize_uninitialized(launches.size());
  auto nest = [&](const Thread& thread) {
    OpenEvents open(host, whole_microseconds ? 1000 : 0);
    std::uint32_t launch = thread.launch_begin;
    auto place_launches_before = [&](std::int64_t time_ns) {
      for (; launch < thread.launch_end && launches.start_ns[launch] < time_ns; ++launch) {
        open.advance(launches.start_ns[launch]);
        launches.host[launch] = open.innermost();
      }
    };
    for (std::uint32_t row = thread.host_begin; row < thread.host_end; ++row) {
      place_launches_before(host.start_ns[row]);
      host.parent[row] = open.open(row);
    }
    place_launches_before(INT64_MAX);
  };
  std::atomic<std::size_t> next{0};
  on_threads(threads, [&] {
    for (std::size_t i = next++; i < trace.threads.size(); i = next++) nest(trace.threads[i]);
  });
}

void link_device_events(Trace& trace, Unlinked& unlinked) {
  DeviceEvents& device = trace.device;
  const Launches& launches = trace.launches;
  const HostEvents& host = trace.host;
  TraceCoverage& coverage = trace.coverage;
  bool uncorrelated = std::find(device.correlation.begin(), device.correlation.end(), kNoId) !=
                      device.correlation.end();
  if (uncorrelated && !unlinked.launch_flows.empty()) correlate_by_flows(trace, unlinked);
  unlinked.launch_flows.clear();

  IdIndex by_correlation(launches.correlation), by_external_id(host.external_id);
  index_launches(launches, by_correlation);
  bool indexed = false;
  auto operator_by_external_id = [&](std::int64_t id, std::int64_t latest_ns) {
    if (id == kNoId) return kNone;
    if (!indexed) index_operators(host, by_external_id);
    indexed = true;
    std::uint32_t row = by_external_id.find(id);
    return row != kNone && host.start_ns[row] <= latest_ns ? row : kNone;
  };

  device.launch.resize_uninitialized(device.size());
  device.host.resize_uninitialized(device.size());
  for (std::size_t i = 0; i < device.size(); ++i) {
    std::uint32_t launch = by_correlation.find(device.correlation[i]);
    device.launch[i] = launch;
    std::uint32_t from = kNone;
    if (launch != kNone) {
      ++coverage.linked;
      coverage.graph_launched += launches.kind[launch] == LaunchKind::graph;
      coverage.before_launch += device.start_ns[i] < launches.start_ns[launch];
      from = launches.host[launch];
      if (from == kNone) {
        from = operator_by_external_id(launches.external_id[launch], launches.start_ns[launch]);
      }
    }
    if (from == kNone) from = operator_by_external_id(device.external_id[i], device.start_ns[i]);
    device.host[i] = from;
    coverage.linked_to_operator += trace.enclosing(from, HostKind::op) != kNone;
  }
}

void clip_overruns(Trace& trace, bool whole_microseconds) {
  const DeviceEvents& device = trace.device;
  std::int64_t slack_ns = whole_microseconds ? 1000 : 0;
  std::vector<std::uint32_t> last(trace.lanes.size(), kNone);
  for (std::uint32_t i = 0; i < device.size(); ++i) {
    std::uint32_t& previous = last[device.lane[i]];
    if (previous != kNone) {
      std::int64_t room_ns = device.start_ns[i] - device.start_ns[previous];
      if (device.duration_ns[previous] > room_ns + slack_ns) {
        trace.clips.push_back({.event = previous, .duration_ns = room_ns});
      }
    }
    previous = i;
  }
  std::sort(trace.clips.data(), trace.clips.data() + trace.clips.size(),
            [](const Clip& a, const Clip& b) { return a.event < b.event; });
}

void find_steps(Trace& trace) {
  constexpr std::string_view kStep = "ProfilerStep";
  constexpr std::size_t kMostSteps = 1u << 20;
  const HostEvents& host = trace.host;
  for (std::uint32_t row = 0; row < host.size(); ++row) {
    if (host.kind[row] != HostKind::annotation) continue;
    std::string_view name = trace.text(host.name[row]);
    if (!name.starts_with(kStep)) continue;
    std::size_t digits = name.find_first_of("0123456789");
    if (digits == std::string_view::npos || trace.steps.size() >= kMostSteps) continue;
    std::int64_t number = 0;
    for (char c : name.substr(digits)) {
      if (c < '0' || c > '9' || number > INT64_MAX / 16) break;
      number = number * 10 + (c - '0');
    }
    trace.steps.push_back({.number = number,
                           .start_ns = host.start_ns[row],
                           .duration_ns = host.duration_ns[row],
                           .host = row});
  }
  std::sort(trace.steps.begin(), trace.steps.end(),
            [](const ProfilerStep& a, const ProfilerStep& b) { return a.start_ns < b.start_ns; });
}

void link_trace(Trace& trace, Unlinked& unlinked, unsigned threads,
                const std::atomic<bool>* cancel) {
  bool whole_microseconds = unlinked.whole_microseconds;
  std::size_t rows = trace.device.size() + trace.launches.size() + trace.host.size();
  if (rows < kRowsWorthThreads) threads = 1;
  auto link_device = [&] {
    link_device_events(trace, unlinked);
    clip_overruns(trace, whole_microseconds);
  };
  auto link_host = [&] {
    link_backward(trace, unlinked);
    find_steps(trace);
  };
  const std::array<std::function<void()>, 5> stages = {
      [&] { leave_out_strays(trace, unlinked); },
      [&] { sort_events(trace, threads); },
      [&] { nest_host_events(trace, whole_microseconds, threads); },
      [&] { run_tasks(threads, {link_host, link_device}); },
      [&] { link_collectives(trace); },
  };
  for (const auto& stage : stages) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return;
    stage();
  }
}

}  // namespace mfu
