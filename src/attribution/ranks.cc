#include "attribution/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "attribution/window.h"

namespace mfu {

namespace {

struct Member {
  std::size_t rank;
  std::uint32_t span;
  std::int64_t duration_ns;
};

// The kernel says what it does where nothing else does.
std::string_view operation_of(std::string_view kernel) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "AllReduce", "ReduceScatter", "AllGather", "AllToAll", "SendRecv", "Broadcast", "Reduce"};
  for (std::string_view name : kNames) {
    if (kernel.find(name) != std::string_view::npos) return name;
  }
  return kernel;
}

// Ranks that do not all take part, or do not leave together.
bool is_point_to_point(std::string_view name) {
  return name == "send" || name == "recv" || name.starts_with("send ") || name.starts_with("recv ");
}

std::int64_t step_of(const Trace& trace, std::uint32_t event) {
  std::uint32_t launch = trace.device.launch[event];
  if (launch == kNone) return -1;
  std::optional<std::size_t> step = step_at(trace, trace.launches.start_ns[launch]);
  return step ? trace.steps[*step].number : -1;
}

// What makes the k-th of one rank the k-th of another; empty: not to be matched.
std::string key_of(const Trace& trace, std::uint32_t event) {
  std::uint32_t row = trace.device.collective[event];
  std::string_view kernel = trace.text(trace.device.name[event]);
  std::int64_t step = step_of(trace, event);
  if (row == kNone) return fmt::format("{}|{}", step, operation_of(kernel));
  const Collective& collective = trace.collectives[row];
  std::string_view name = trace.text(collective.name);
  if (is_point_to_point(name)) return {};
  // Uneven all-to-alls differ in elements from rank to rank; the others do not.
  std::string elements = collective.elements_out && name.find("all_to_all") == std::string::npos
                             ? std::to_string(*collective.elements_out)
                             : "";
  return fmt::format("{}|{}|{}|{}|{}|{}", step, trace.text(collective.group),
                     trace.text(collective.ranks), name, operation_of(kernel), elements);
}

using Sequence = std::map<std::string, std::vector<Member>>;

Sequence sequence_of(std::size_t rank, const RankWork& work) {
  Sequence sequence;
  for (std::uint32_t i = 0; i < work.works.spans.size(); ++i) {
    const Span& span = work.works.spans[i];
    if (span.level != Level::communication) continue;
    std::string key = key_of(*work.trace, span.event);
    if (!key.empty()) sequence[key].push_back({rank, i, span.end_ns - span.start_ns});
  }
  return sequence;
}

// All ranks leave a collective together, so the last to arrive was in it for the shortest time and
// the others waited for the rest: no clock needs to be compared.
void settle(std::span<RankWork> ranks, const std::vector<Member>& members, Matching& matching) {
  auto last = std::min_element(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return a.duration_ns < b.duration_ns;
  });
  for (const Member& member : members) {
    Works& works = ranks[member.rank].works;
    std::int64_t waited = member.duration_ns - last->duration_ns;
    works.spans[member.span].call = static_cast<std::uint32_t>(works.waits.size());
    works.waits.push_back(waited);
    matching.waited_ns[member.rank] += waited;
    matching.blamed_ns[last->rank] += waited;
  }
  ++matching.matched;
}

}  // namespace

Matching match_collectives(std::span<RankWork> ranks) {
  Matching matching;
  matching.waited_ns.resize(ranks.size());
  matching.blamed_ns.resize(ranks.size());
  if (ranks.size() < 2) return matching;
  std::vector<Sequence> sequences;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    sequences.push_back(ranks[i].cpu ? Sequence{} : sequence_of(i, ranks[i]));
  }
  std::map<std::string, std::size_t> keys;  // how many ranks have it, if all equally often
  for (const Sequence& sequence : sequences) {
    for (const auto& [key, members] : sequence) ++keys[key];
  }
  for (const auto& [key, count] : keys) {
    if (count < 2) continue;
    std::vector<const std::vector<Member>*> lists;
    bool even = true;
    for (const Sequence& sequence : sequences) {
      auto found = sequence.find(key);
      if (found == sequence.end()) continue;
      if (!lists.empty() && lists.front()->size() != found->second.size()) even = false;
      lists.push_back(&found->second);
    }
    if (!even) continue;
    for (std::size_t k = 0; k < lists.front()->size(); ++k) {
      std::vector<Member> members;
      for (const auto* list : lists) members.push_back((*list)[k]);
      settle(ranks, members, matching);
    }
  }
  return matching;
}

}  // namespace mfu
