#include "attribution/ranks.h"

#include "base/saturating.h"

namespace mfu {

RankWaits waits_of(std::span<const TraceOutline* const> traces) {
  RankWaits waits;
  std::vector<std::size_t> first;  // the first rank of each trace
  std::size_t ranks = 0;
  for (const TraceOutline* trace : traces) {
    first.push_back(ranks);
    ranks += trace->ranks;
    waits.waits.emplace_back(trace->communication.events.size());
  }
  waits.waited_ns.resize(ranks);
  waits.blamed_ns.resize(ranks);
  if (traces.size() < 2) return waits;
  std::vector<const Communication*> communications;
  for (const TraceOutline* trace : traces) communications.push_back(&trace->communication);
  CollectiveMatch match = match_communication(communications);
  waits.notes = std::move(match.notes);
  for (const MatchedCollective& collective : match.collectives) {
    if (collective.parts.size() < 2) continue;
    ++waits.matched;
    std::optional<std::size_t> late;
    std::int64_t others = 0;
    for (const CollectivePart& part : collective.parts) {
      std::size_t rank = first[part.trace] + traces[part.trace]->communicating[part.place];
      if (part.trace == collective.straggler) late = rank;
      waits.waits[part.trace][part.place] = part.wait_ns;
      waits.waited_ns[rank] = saturating_sum(waits.waited_ns[rank], part.wait_ns);
      others = saturating_sum(others, part.wait_ns);
    }
    if (late) waits.blamed_ns[*late] = saturating_sum(waits.blamed_ns[*late], others);
  }
  return waits;
}

}  // namespace mfu
