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

// The collectives of one kind and group in one trace: places in its events, in order.
struct List {
  std::uint32_t trace = 0;
  std::vector<std::uint32_t> places;
};
// By trace. Only traces that have some are listed, because a job has many small groups.
using Lists = std::vector<List>;
using Communications = std::span<const Communication* const>;

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

// Whether every communicating kernel with a collective's record names its group, in all traces.
bool all_have_groups(Communications traces) {
  for (const Communication* trace : traces) {
    for (const CommunicationEvent& event : trace->events) {
      if (event.group == kNone) return false;
    }
  }
  return true;
}

std::map<std::pair<std::string, std::string>, Lists> collect(Communications traces) {
  bool by_group = all_have_groups(traces);
  std::map<std::pair<std::string, std::string>, Lists> found;
  for (std::uint32_t t = 0; t < traces.size(); ++t) {
    const Communication& trace = *traces[t];
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
      const CommunicationEvent& event = trace.events[i];
      std::string group;
      if (by_group) group = trace.texts[event.group];
      Lists& lists = found[{group, trace.texts[event.kind]}];
      if (lists.empty() || lists.back().trace != t) lists.push_back({t, {}});
      lists.back().places.push_back(i);
    }
  }
  return found;
}

// How far list `b` must be shifted against `a` so that most sizes agree. Empty if the sizes do not
// tell.
std::optional<std::int64_t> best_shift(Communications traces, const List& a, const List& b) {
  auto size_a = static_cast<std::int64_t>(a.places.size());
  auto size_b = static_cast<std::int64_t>(b.places.size());
  constexpr std::int64_t kMostShift = 256;
  std::int64_t reach = std::min(std::abs(size_a - size_b), kMostShift);
  std::optional<std::int64_t> best;
  std::int64_t most = 0;
  auto elements = [&](const List& list, std::int64_t at) {
    return traces[list.trace]->events[list.places[static_cast<std::size_t>(at)]].elements;
  };
  for (std::int64_t shift = -reach; shift <= reach; ++shift) {
    std::int64_t agree = 0;
    for (std::int64_t i = 0; i < size_b; ++i) {
      std::int64_t j = i + shift;
      if (j < 0 || j >= size_a) continue;
      std::optional<std::int64_t> there = elements(a, j);
      agree += there && there == elements(b, i);
    }
    if (agree > most) {
      most = agree;
      best = shift;
    }
  }
  return best;
}

struct Member {
  std::uint32_t trace = 0, place = 0;
};

// Each row is one collective: the traces that have it, in order.
std::vector<std::vector<Member>> align(Communications traces, const Lists& lists,
                                       const std::string& what, std::vector<Note>& notes) {
  const List* reference = lists.data();
  for (const List& list : lists) {
    if (list.places.size() > reference->places.size()) reference = &list;
  }
  std::vector<std::vector<Member>> rows(reference->places.size());
  for (const List& list : lists) {
    std::int64_t shift = 0;
    if (list.places.size() != reference->places.size()) {
      std::optional<std::int64_t> by_size = best_shift(traces, *reference, list);
      if (!by_size) {
        notes.push_back({"collectives_unmatched",
                         {{"what", what},
                          {"trace", static_cast<std::int64_t>(list.trace)},
                          {"calls", static_cast<std::int64_t>(list.places.size())},
                          {"most", static_cast<std::int64_t>(reference->places.size())}}});
        continue;
      }
      shift = *by_size;
    }
    for (std::size_t i = 0; i < list.places.size(); ++i) {
      std::int64_t k = static_cast<std::int64_t>(i) + shift;
      if (k >= 0 && k < static_cast<std::int64_t>(rows.size())) {
        rows[static_cast<std::size_t>(k)].push_back({list.trace, list.places[i]});
      }
    }
  }
  return rows;
}

std::int64_t end_ns(const CommunicationEvent& event) {
  return event.start_ns + event.duration_ns;
}

std::int64_t median(std::vector<std::int64_t>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Matched {
  std::string group, kind;
  std::vector<Member> members;  // by trace
};

// Collectives end at the same time, so the median difference of ends is the difference of the
// clocks.
std::vector<RankClock> set_clocks(Communications traces, const std::vector<Matched>& matched) {
  std::vector<RankClock> clocks(traces.size());
  if (!clocks.empty()) clocks[0].spread_ns = 0;
  std::vector<std::vector<std::int64_t>> differences(traces.size());
  for (const Matched& one : matched) {
    const Member& first = one.members.front();
    if (first.trace != 0) continue;
    std::int64_t ended_ns = end_ns(traces[0]->events[first.place]);
    for (std::size_t i = 1; i < one.members.size(); ++i) {
      const Member& other = one.members[i];
      differences[other.trace].push_back(end_ns(traces[other.trace]->events[other.place]) -
                                         ended_ns);
    }
  }
  for (std::size_t t = 1; t < traces.size(); ++t) {
    if (differences[t].empty()) continue;
    clocks[t].offset_ns = median(differences[t]);
    for (std::int64_t& difference : differences[t])
      difference = std::abs(difference - clocks[t].offset_ns);
    clocks[t].spread_ns = median(differences[t]);
  }
  return clocks;
}

// How much of the data crosses the wire for each rank, from nccl-tests' PERFORMANCE.md.
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

MatchedCollective part_times(Communications traces, const Matched& matched,
                             const std::vector<RankClock>& clocks) {
  MatchedCollective collective;
  collective.name = matched.kind;
  collective.group = matched.group;
  std::int64_t first = INT64_MAX, latest = INT64_MIN, end = INT64_MIN;
  for (const Member& member : matched.members) {
    const CommunicationEvent& event = traces[member.trace]->events[member.place];
    std::int64_t start = event.start_ns - clocks[member.trace].offset_ns;
    first = std::min(first, start);
    if (start > latest) {
      latest = start;
      collective.straggler = member.trace;
    }
    end = std::max(end, end_ns(event) - clocks[member.trace].offset_ns);
  }
  collective.transfer_ns = std::max<std::int64_t>(end - latest, 0);
  collective.parts.reserve(matched.members.size());
  for (const Member& member : matched.members) {
    const CommunicationEvent& event = traces[member.trace]->events[member.place];
    std::int64_t start = event.start_ns - clocks[member.trace].offset_ns;
    std::int64_t wait = std::clamp<std::int64_t>(latest - start, 0, event.duration_ns);
    collective.parts.push_back({.trace = member.trace,
                                .place = member.place,
                                .device_event = event.event,
                                .lateness_ns = start - first,
                                .wait_ns = wait,
                                .transfer_ns = event.duration_ns - wait});
  }
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

Communication communication_of(const Trace& trace) {
  Communication communication;
  std::map<std::string, std::uint32_t> known;
  auto keep = [&](std::string text) {
    auto [found, fresh] =
        known.try_emplace(std::move(text), static_cast<std::uint32_t>(known.size()));
    if (fresh) communication.texts.push_back(found->first);
    return found->second;
  };
  std::map<std::uint32_t, std::uint32_t> kinds, groups;  // by text of the trace
  for (std::uint32_t i = 0; i < trace.device.size(); ++i) {
    if (trace.device.kind[i] != DeviceKind::communication) continue;
    CommunicationEvent& event = communication.events.emplace_back();
    event.event = i;
    event.lane = trace.device.lane[i];
    event.start_ns = trace.device.start_ns[i];
    event.duration_ns = trace.device.duration_ns[i];
    // The kernel's name is used first, because it is there even if the launch was not recorded.
    std::uint32_t name = trace.device.name[i];
    auto [kind, new_kind] = kinds.try_emplace(name, 0);
    if (new_kind) kind->second = keep(collective_kind(trace.text(name)));
    event.kind = kind->second;
    std::uint32_t row = trace.device.collective[i];
    if (row == kNone) continue;
    const Collective& collective = trace.collectives[row];
    event.elements = collective.elements_in;
    if (collective.group == kNone) continue;
    auto [group, new_group] = groups.try_emplace(collective.group, 0);
    if (new_group) group->second = keep(std::string(trace.text(collective.group)));
    event.group = group->second;
  }
  return communication;
}

CollectiveMatch match_communication(std::span<const Communication* const> traces) {
  CollectiveMatch match;
  match.clocks.resize(traces.size());
  if (traces.size() < 2) return match;
  std::vector<Matched> matched;
  for (const auto& [key, lists] : collect(traces)) {
    std::string what = key.first.empty() ? key.second : key.second + " of group " + key.first;
    for (std::vector<Member>& members : align(traces, lists, what, match.notes)) {
      if (members.size() < 2) continue;
      matched.push_back({.group = key.first, .kind = key.second, .members = std::move(members)});
    }
  }
  match.clocks = set_clocks(traces, matched);
  for (const Matched& one : matched) {
    match.collectives.push_back(part_times(traces, one, match.clocks));
  }
  auto begin_of = [&](const MatchedCollective& collective) {
    const CollectivePart& part = collective.parts.front();
    return traces[part.trace]->events[part.place].start_ns - match.clocks[part.trace].offset_ns;
  };
  std::sort(match.collectives.begin(), match.collectives.end(), [&](const auto& a, const auto& b) {
    return std::make_tuple(begin_of(a), a.name, a.group) <
           std::make_tuple(begin_of(b), b.name, b.group);
  });
  return match;
}

CollectiveMatch match_collectives(std::span<const Trace> traces) {
  std::vector<Communication> communications;
  std::vector<const Communication*> places;
  for (const Trace& trace : traces) communications.push_back(communication_of(trace));
  for (const Communication& each : communications) places.push_back(&each);
  CollectiveMatch match = match_communication(places);
  for (MatchedCollective& collective : match.collectives) {
    const CollectivePart& part = collective.parts.front();
    measure_bandwidth(collective, traces[part.trace], part.device_event, traces.size());
  }
  return match;
}

}  // namespace mfu
