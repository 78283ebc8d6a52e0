#include "attribution/settled.h"

#include <algorithm>
#include <unordered_map>

namespace mfu {

namespace {

// An operator this short is mostly dispatch and Python.
constexpr std::int64_t kTinyNs = 10'000;
constexpr std::int64_t kMostOverheadNs = 50'000;
// A call was held up if it took this many times the usual time, and this much longer.
constexpr std::int64_t kHeldUpTimes = 3;
constexpr std::int64_t kHeldUpNs = 50'000;
constexpr std::size_t kFewCalls = 3;  // with fewer calls, no time is usual
// If many processes want the cores, most calls of an operator this long are held up a little.
constexpr std::int64_t kLongNs = 500'000;
constexpr double kMostStretch = 50;

std::int64_t quantile(std::vector<std::int64_t>& values, double fraction) {
  auto at = values.begin() +
            static_cast<std::ptrdiff_t>(fraction * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Spans are nested. Each keeps only its own time.
std::vector<std::int64_t> own_times(const Trace& trace, const Works& works, const Window& window) {
  std::unordered_map<std::uint32_t, std::size_t> span_of;
  for (std::size_t i = 0; i < works.spans.size(); ++i) span_of.emplace(works.spans[i].event, i);
  std::vector<std::int64_t> own(works.spans.size());
  for (std::size_t i = 0; i < works.spans.size(); ++i) {
    std::int64_t ns = inside_ns(works.spans[i], window);
    own[i] += ns;
    std::uint32_t row = trace.host.parent[works.spans[i].event];
    while (row != kNone && !span_of.contains(row)) row = trace.host.parent[row];
    if (row != kNone) own[span_of[row]] -= ns;
  }
  for (std::int64_t& ns : own) ns = std::max<std::int64_t>(ns, 0);
  return own;
}

std::uint64_t kind_of(const Trace& trace, const WorkSpan& span) {
  return std::uint64_t{trace.host.name[span.event]} << 32 | trace.host.inputs[span.event];
}

// The usual time of calls of the same operator with the same arguments. If the thread always had a
// core, it is the median. If it had a core only for a fraction of the time, at most that fraction
// of its calls was undisturbed, and only the square of it if two threads share a call. So the
// quantile is lower.
std::unordered_map<std::uint64_t, std::int64_t> usual_times(const Trace& trace, const Works& works,
                                                            double had_core,
                                                            const Settled& settled) {
  std::unordered_map<std::uint64_t, std::vector<std::int64_t>> alike;
  for (std::size_t i = 0; i < works.spans.size(); ++i) {
    const WorkSpan& span = works.spans[i];
    if (span.level == Level::communication || settled.own_ns[i] == 0) continue;
    alike[kind_of(trace, span)].push_back(settled.own_ns[i]);
  }
  std::unordered_map<std::uint64_t, std::int64_t> usual;
  for (auto& [kind, times] : alike) {
    if (times.size() >= kFewCalls) usual[kind] = quantile(times, 0.5 * had_core * had_core);
  }
  return usual;
}

std::int64_t settle_times(const Trace& trace, const Works& works, double had_core,
                          Settled& settled) {
  std::unordered_map<std::uint64_t, std::int64_t> usual =
      usual_times(trace, works, had_core, settled);
  std::int64_t taken = 0;
  for (std::size_t i = 0; i < works.spans.size(); ++i) {
    const WorkSpan& span = works.spans[i];
    auto known = usual.find(kind_of(trace, span));
    if (span.level == Level::communication || known == usual.end()) continue;
    std::int64_t most = std::max(kHeldUpTimes * known->second, known->second + kHeldUpNs);
    if (settled.own_ns[i] <= most) continue;
    settled.held_up_ns[i] = settled.own_ns[i] - known->second;
    settled.own_ns[i] = known->second;
    taken += settled.held_up_ns[i];
  }
  return taken;
}

// The rest of what the scheduler counted is in long operators and between operators.
void settle_long(std::int64_t waited_ns, std::int64_t between_ns, Settled& settled) {
  double long_ns = 0;
  for (std::int64_t ns : settled.own_ns) long_ns += ns > kLongNs ? static_cast<double>(ns) : 0;
  double both = long_ns + static_cast<double>(between_ns);
  if (waited_ns <= 0 || both <= 0) return;
  double share = std::min(0.9, static_cast<double>(waited_ns) / both);
  for (std::size_t i = 0; i < settled.own_ns.size(); ++i) {
    if (settled.own_ns[i] <= kLongNs) continue;
    auto taken = static_cast<std::int64_t>(share * static_cast<double>(settled.own_ns[i]));
    settled.own_ns[i] -= taken;
    settled.held_up_ns[i] += taken;
  }
}

double stretch_of(const Works& works, const RankPart& part, const Ledger& ledger,
                  std::int64_t waited_ns, const Settled& settled) {
  std::int64_t unknown = ledger[LedgerLine::idle_unknown];
  std::int64_t waits = ledger[LedgerLine::idle_data] + unknown - std::min(unknown, waited_ns) +
                       part.intervals.exposed_communication_ns;
  double active = static_cast<double>(part.window.duration_ns() - waits);
  double work = static_cast<double>(ledger[LedgerLine::idle_launch]);
  for (std::size_t i = 0; i < works.spans.size(); ++i) {
    if (works.spans[i].level == Level::communication) continue;
    work += static_cast<double>(settled.own_ns[i]);
  }
  return work <= 0 ? 1 : std::clamp(active / work, 1.0, kMostStretch);
}

}  // namespace

Settled settled_of(const Trace& trace, const Works& works, const RankPart& part,
                   const ProfiledWindow* counted) {
  Settled settled;
  settled.own_ns = own_times(trace, works, part.window);
  settled.held_up_ns.resize(works.spans.size());
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < works.spans.size(); ++i) {
    if (works.spans[i].level == Level::communication || settled.own_ns[i] == 0) continue;
    all.push_back(settled.own_ns[i]);
  }
  // On a slow machine the cheapest operators are slow too.
  std::int64_t cheap = all.empty() ? 0 : quantile(all, 0.25);
  settled.overhead_ns = std::clamp(2 * cheap, kTinyNs, kMostOverheadNs);
  Ledger idle;
  for (const StepLedger& step : part.steps) idle += step.ledger;
  std::int64_t waited = counted == nullptr ? 0 : counted->waited.count();
  double wall = counted == nullptr ? 0 : static_cast<double>(counted->wall.count());
  double had_core = wall <= 0 ? 1 : std::clamp(1 - static_cast<double>(waited) / wall, 0.0, 1.0);
  std::int64_t taken = settle_times(trace, works, had_core, settled);
  settle_long(waited - taken, idle[LedgerLine::idle_unknown], settled);
  settled.stretch = stretch_of(works, part, idle, waited, settled);
  return settled;
}

}  // namespace mfu
