#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "attribution/tables.h"
#include "base/text.h"

namespace mfu {

namespace {

// A picture can show this many spans per lane. Beyond that, neighbours on the same line are joined.
constexpr std::size_t kSpansALane = 6000;

struct Drawing {
  PartLane lane;
  std::map<std::uint32_t, std::uint32_t> names;  // text -> lane.names

  std::uint32_t name(const Trace& trace, std::uint32_t text) {
    auto [found, fresh] = names.try_emplace(text, static_cast<std::uint32_t>(lane.names.size()));
    if (fresh) lane.names.push_back(printable(trace.text(text), 120));
    return found->second;
  }
};

// Joins neighbours that are closer than `apart_ns` and that are on the same line whatever the peaks
// are.
void thin(PartLane& lane, std::int64_t apart_ns) {
  std::vector<PartLaneSpan> kept;
  for (const PartLaneSpan& span : lane.spans) {
    bool joins = !kept.empty() && kept.back().level == span.level && kept.back().key == span.key &&
                 span.start_ns - kept.back().end_ns < apart_ns &&
                 span.end_ns - kept.back().start_ns < 8 * apart_ns;
    if (!joins) {
      kept.push_back(span);
      continue;
    }
    PartLaneSpan& last = kept.back();
    bool longer = span.end_ns - span.start_ns > last.end_ns - last.start_ns;
    if (longer) last.name = span.name;
    last.end_ns = std::max(last.end_ns, span.end_ns);
    last.events += span.events;
  }
  lane.spans = std::move(kept);
}

}  // namespace

std::vector<PartLane> timeline_of(const Trace& trace, const Works& works, const Window& window,
                                  bool cpu) {
  std::map<std::uint32_t, Drawing> drawings;
  for (const WorkSpan& span : works.spans) {
    std::int64_t from_ns = std::max(span.start_ns, window.start_ns);
    std::int64_t to_ns = std::min(span.end_ns, window.end_ns);
    if (to_ns <= from_ns) continue;
    std::uint32_t lane = cpu ? trace.host.thread[span.event] : trace.device.lane[span.event];
    Drawing& drawing = drawings[lane];
    if (drawing.lane.label.empty()) {
      drawing.lane.label = cpu ? fmt::format("thread {}", trace.threads[lane].id)
                               : fmt::format("stream {}", trace.lanes[lane].stream);
    }
    std::uint32_t text = cpu ? trace.host.name[span.event] : trace.device.name[span.event];
    PartLaneSpan& drawn = drawing.lane.spans.emplace_back();
    drawn = {from_ns, to_ns, span.level, {}, drawing.name(trace, text), 1};
    if (span.level == Level::matmul) {
      const WorkCall& call = works.calls[span.call];
      drawn.key = {works.costs[call.cost].cost->compute_type, call.tf32};
    }
  }
  std::vector<PartLane> lanes;
  for (auto& [key, drawing] : drawings) {
    std::int64_t apart_ns = std::max<std::int64_t>(1, window.duration_ns() / 20000);
    for (int i = 0; i < 20 && drawing.lane.spans.size() > kSpansALane; ++i, apart_ns *= 2) {
      thin(drawing.lane, apart_ns);
    }
    lanes.push_back(std::move(drawing.lane));
  }
  return lanes;
}

}  // namespace mfu
