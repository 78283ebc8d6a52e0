#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "base/text.h"
#include "trace/collective.h"

namespace mfu {
namespace {

struct Occurrence {
  std::uint32_t event = 0;
  std::optional<std::int64_t> elements, sequence;
};
// One kind of collective in one group: what each trace has of it, in order.
using Lists = std::vector<std::vector<Occurrence>>;

struct Sized {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<Sized, 21> kElementBytes = {{
    {"float", 4},
    {"double", 8},
    {"half", 2},
    {"bfloat16", 2},
    {"c10::half", 2},
    {"c10::bfloat16", 2},
    {"int", 4},
    {"long", 8},
    {"long int", 8},
    {"short", 2},
    {"byte", 1},
    {"char", 1},
    {"bool", 1},
    {"unsigned char", 1},
    {"signed char", 1},
    {"float8_e4m3fn", 1},
    {"float8_e5m2", 1},
    {"c10::float8_e4m3fn", 1},
    {"c10::float8_e5m2", 1},
    {"complexfloat", 8},
    {"uint8", 1},
}};

std::optional<std::int64_t> element_bytes(std::string_view dtype) {
  std::string lower = to_lower(dtype);
  for (const Sized& sized : kElementBytes) {
    if (sized.name == lower) return sized.bytes;
  }
  return std::nullopt;
}

// Whether every communicating kernel that has a collective's record names its group, in all traces.
bool all_have_groups(std::span<const Trace> traces) {
  for (const Trace& trace : traces) {
    for (std::size_t i = 0; i < trace.device.size(); ++i) {
      if (trace.device.kind[i] != DeviceKind::communication) continue;
      std::uint32_t row = trace.device.collective[i];
      if (row == kNone || trace.collectives[row].group == kNone) return false;
    }
  }
  return true;
}

std::map<std::pair<std::string, std::string>, Lists> collect(std::span<const Trace> traces) {
  bool by_group = all_have_groups(traces);
  std::map<std::pair<std::string, std::string>, Lists> found;
  for (std::size_t t = 0; t < traces.size(); ++t) {
    const Trace& trace = traces[t];
    for (std::uint32_t i = 0; i < trace.device.size(); ++i) {
      if (trace.device.kind[i] != DeviceKind::communication) continue;
      Occurrence occurrence;
      occurrence.event = i;
      // The kernel's name first: it is there even where the launch was not recorded.
      std::string kind = collective_kind(trace.text(trace.device.name[i]));
      std::string group;
      if (std::uint32_t row = trace.device.collective[i]; row != kNone) {
        const Collective& collective = trace.collectives[row];
        occurrence.elements = collective.elements_in;
        occurrence.sequence = collective.sequence;
        if (by_group) group = trace.text(collective.group);
      }
      Lists& lists = found[{group, kind}];
      lists.resize(traces.size());
      lists[t].push_back(occurrence);
    }
  }
  return found;
}

// How far list `b` must be moved against `a` so that the sizes agree most; none: sizes do not tell.
std::optional<std::int64_t> best_shift(const std::vector<Occurrence>& a,
                                       const std::vector<Occurrence>& b) {
  auto size_a = static_cast<std::int64_t>(a.size()), size_b = static_cast<std::int64_t>(b.size());
  constexpr std::int64_t kMostShift = 256;
  std::int64_t reach = std::min(std::abs(size_a - size_b), kMostShift);
  std::optional<std::int64_t> best;
  std::int64_t most = 0;
  for (std::int64_t shift = -reach; shift <= reach; ++shift) {
    std::int64_t agree = 0;
    for (std::int64_t i = 0; i < size_b; ++i) {
      std::int64_t j = i + shift;
      if (j < 0 || j >= size_a) continue;
      auto at_a = static_cast<std::size_t>(j), at_b = static_cast<std::size_t>(i);
      agree += a[at_a].elements && a[at_a].elements == b[at_b].elements;
    }
    if (agree > most) {
      most = agree;
      best = shift;
    }
  }
  return best;
}

// Position k of every trace is one collective; kNone: that trace does not have it.
std::vector<std::vector<std::uint32_t>> align(const Lists& lists, const std::string& what,
                                              std::vector<std::string>& notes) {
  std::size_t reference = 0;
  for (std::size_t t = 0; t < lists.size(); ++t) {
    if (lists[t].size() > lists[reference].size()) reference = t;
  }
  std::vector<std::vector<std::uint32_t>> rows(lists[reference].size(),
                                               std::vector<std::uint32_t>(lists.size(), kNone));
  for (std::size_t t = 0; t < lists.size(); ++t) {
    std::int64_t shift = 0;
    if (lists[t].empty()) continue;
    if (lists[t].size() != lists[reference].size()) {
      std::optional<std::int64_t> by_size = best_shift(lists[reference], lists[t]);
      if (!by_size) {
        notes.push_back(
            fmt::format("{}: trace {} has {} where another has {}, and no sizes to match them by",
                        what, t, lists[t].size(), lists[reference].size()));
        continue;
      }
      shift = *by_size;
    }
    for (std::size_t i = 0; i < lists[t].size(); ++i) {
      std::int64_t k = static_cast<std::int64_t>(i) + shift;
      if (k >= 0 && k < static_cast<std::int64_t>(rows.size())) {
        rows[static_cast<std::size_t>(k)][t] = lists[t][i].event;
      }
    }
  }
  return rows;
}

std::int64_t end_ns(const Trace& trace, std::uint32_t event) {
  return trace.device.start_ns[event] + trace.device.duration_ns[event];
}

std::int64_t median(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Matched {
  std::string group, kind;
  std::vector<std::uint32_t> events;  // one a trace, or kNone
};

// Ends coincide; so the median difference of ends is the difference of clocks.
std::vector<RankClock> set_clocks(std::span<const Trace> traces,
                                  const std::vector<Matched>& matched) {
  std::vector<RankClock> clocks(traces.size());
  if (!clocks.empty()) clocks[0].spread_ns = 0;
  for (std::size_t t = 1; t < traces.size(); ++t) {
    std::vector<std::int64_t> differences;
    for (const Matched& one : matched) {
      if (one.events[0] == kNone || one.events[t] == kNone) continue;
      differences.push_back(end_ns(traces[t], one.events[t]) - end_ns(traces[0], one.events[0]));
    }
    if (differences.empty()) continue;
    clocks[t].offset_ns = median(differences);
    for (std::int64_t& difference : differences)
      difference = std::abs(difference - clocks[t].offset_ns);
    clocks[t].spread_ns = median(differences);
  }
  return clocks;
}

// Of what every rank must see of the data, over the wire: nccl-tests' PERFORMANCE.md.
double bus_factor(std::string_view kind, double ranks) {
  if (kind == "allreduce") return 2 * (ranks - 1) / ranks;
  if (kind == "allgather" || kind == "reducescatter" || kind == "alltoall")
    return (ranks - 1) / ranks;
  return 1;
}

void measure_bandwidth(MatchedCollective& collective, const Trace& trace, std::uint32_t event,
                       std::size_t traces) {
  std::uint32_t row = trace.device.collective[event];
  if (row == kNone) return;
  const Collective& recorded = trace.collectives[row];
  std::optional<std::int64_t> elements =
      collective.name == "allgather" ? recorded.elements_out : recorded.elements_in;
  std::optional<std::int64_t> each = element_bytes(trace.text(recorded.dtype));
  if (!elements || !each || *elements < 0 || *elements > (INT64_MAX >> 4)) return;
  collective.bytes = *elements * *each;
  std::int64_t ranks = recorded.group_size.value_or(
      trace.info.world_size.value_or(static_cast<std::int64_t>(traces)));
  if (ranks < 2 || collective.transfer_ns <= 0) return;
  double rate =
      static_cast<double>(*collective.bytes) * 1e9 / static_cast<double>(collective.transfer_ns);
  collective.algorithm_bytes_per_s = rate;
  collective.bus_bytes_per_s = rate * bus_factor(collective.name, static_cast<double>(ranks));
}

MatchedCollective part_times(std::span<const Trace> traces, const Matched& matched,
                             const std::vector<RankClock>& clocks) {
  MatchedCollective collective;
  collective.name = matched.kind;
  collective.group = matched.group;
  std::int64_t first = INT64_MAX, latest = INT64_MIN, end = INT64_MIN;
  for (std::uint32_t t = 0; t < traces.size(); ++t) {
    std::uint32_t event = matched.events[t];
    if (event == kNone) continue;
    std::int64_t start = traces[t].device.start_ns[event] - clocks[t].offset_ns;
    first = std::min(first, start);
    if (start > latest) {
      latest = start;
      collective.straggler = t;
    }
    end = std::max(end, end_ns(traces[t], event) - clocks[t].offset_ns);
  }
  collective.transfer_ns = std::max<std::int64_t>(end - latest, 0);
  for (std::uint32_t t = 0; t < traces.size(); ++t) {
    std::uint32_t event = matched.events[t];
    if (event == kNone) continue;
    std::int64_t start = traces[t].device.start_ns[event] - clocks[t].offset_ns;
    std::int64_t duration = traces[t].device.duration_ns[event];
    std::int64_t wait = std::clamp<std::int64_t>(latest - start, 0, duration);
    collective.parts.push_back({.trace = t,
                                .device_event = event,
                                .lateness_ns = start - first,
                                .wait_ns = wait,
                                .transfer_ns = duration - wait});
  }
  const CollectivePart& part = collective.parts.front();
  measure_bandwidth(collective, traces[part.trace], part.device_event, traces.size());
  return collective;
}

}  // namespace

std::string collective_kind(std::string_view name) {
  std::string plain;
  for (char c : to_lower(name)) {
    if (c != '_' && c != '-' && c != ' ') plain += c;
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kKinds = {{
      {"allreduce", "allreduce"},
      {"crossdevicereduce", "allreduce"},
      {"reducescatter", "reducescatter"},
      {"allgather", "allgather"},
      {"alltoall", "alltoall"},
      {"sendrecv", "alltoall"},
      {"broadcast", "broadcast"},
      {"dispatch", "dispatch"},
      {"combine", "combine"},
      {"reduce", "reduce"},
      {"barrier", "barrier"},
  }};
  for (const auto& [part, kind] : kKinds) {
    if (plain.find(part) != std::string::npos) return std::string(kind);
  }
  return printable(name);
}

CollectiveMatch match_collectives(std::span<const Trace> traces) {
  CollectiveMatch match;
  match.clocks.resize(traces.size());
  if (traces.size() < 2) return match;
  std::vector<Matched> matched;
  for (const auto& [key, lists] : collect(traces)) {
    std::string what = key.first.empty() ? key.second : key.second + " of group " + key.first;
    for (std::vector<std::uint32_t>& events : align(lists, what, match.notes)) {
      auto there =
          std::count_if(events.begin(), events.end(), [](auto row) { return row != kNone; });
      if (there < 2) continue;
      matched.push_back({.group = key.first, .kind = key.second, .events = std::move(events)});
    }
  }
  match.clocks = set_clocks(traces, matched);
  for (const Matched& one : matched) {
    match.collectives.push_back(part_times(traces, one, match.clocks));
  }
  auto begin_of = [&](const MatchedCollective& collective) {
    const CollectivePart& part = collective.parts.front();
    return traces[part.trace].device.start_ns[part.device_event] -
           match.clocks[part.trace].offset_ns;
  };
  std::sort(match.collectives.begin(), match.collectives.end(), [&](const auto& a, const auto& b) {
    return std::make_tuple(begin_of(a), a.name, a.group) <
           std::make_tuple(begin_of(b), b.name, b.group);
  });
  return match;
}

}  // namespace mfu
