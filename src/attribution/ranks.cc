#include "attribution/ranks.h"

#include <algorithm>

#include "base/saturating.h"
#include "trace/collective.h"

namespace mfu {

namespace {

constexpr std::size_t kNowhere = SIZE_MAX;

// Of each trace, the rank and span a device event became.
class Places {
 public:
  Places(std::span<const Trace> traces, std::span<const RankWork> ranks)
      : by_trace_(traces.size()) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].cpu) continue;
      const std::vector<WorkSpan>& spans = ranks[rank].works.spans;
      for (std::uint32_t i = 0; i < spans.size(); ++i) {
        if (spans[i].level != Level::communication) continue;
        by_trace_[ranks[rank].trace_number].push_back({spans[i].event, i, rank});
      }
    }
    for (auto& places : by_trace_) {
      std::sort(places.begin(), places.end(),
                [](const Place& a, const Place& b) { return a.event < b.event; });
    }
  }

  struct Place {
    std::uint32_t event = 0, span = 0;
    std::size_t rank = kNowhere;
  };
  Place of(const CollectivePart& part) const {
    const std::vector<Place>& places = by_trace_[part.trace];
    auto found = std::lower_bound(
        places.begin(), places.end(), part.device_event,
        [](const Place& place, std::uint32_t event) { return place.event < event; });
    return found != places.end() && found->event == part.device_event ? *found : Place{};
  }

 private:
  std::vector<std::vector<Place>> by_trace_;
};

}  // namespace

RankWaits set_waits(std::span<const Trace> traces, std::span<RankWork> ranks) {
  RankWaits waits;
  waits.waited_ns.resize(ranks.size());
  waits.blamed_ns.resize(ranks.size());
  if (traces.size() < 2) return waits;
  CollectiveMatch match = match_collectives(traces);
  waits.notes = match.notes;
  Places places(traces, ranks);
  for (const MatchedCollective& collective : match.collectives) {
    if (collective.parts.size() < 2) continue;
    ++waits.matched;
    std::size_t late = kNowhere;
    std::int64_t others = 0;
    for (const CollectivePart& part : collective.parts) {
      Places::Place place = places.of(part);
      if (place.rank == kNowhere) continue;
      if (part.trace == collective.straggler) late = place.rank;
      Works& works = ranks[place.rank].works;
      works.spans[place.span].wait = static_cast<std::uint32_t>(works.waits.size());
      works.waits.push_back(part.wait_ns);
      waits.waited_ns[place.rank] = saturating_sum(waits.waited_ns[place.rank], part.wait_ns);
      others = saturating_sum(others, part.wait_ns);
    }
    if (late != kNowhere) {
      waits.blamed_ns[late] = saturating_sum(waits.blamed_ns[late], others);
    }
  }
  return waits;
}

}  // namespace mfu
