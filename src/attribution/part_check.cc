#include "attribution/part_check.h"

#include <algorithm>
#include <cmath>

namespace mfu {

namespace {

// The reader of traces rejects times beyond these (trace/builder.cc, trace/strays.cc), so a sum of
// a few never overflows.
constexpr std::int64_t kFarthestNs = std::int64_t{1} << 62;
constexpr std::int64_t kLongestNs = std::int64_t{1} << 50;
constexpr std::int64_t kMostSumNs = std::int64_t{1} << 55;

bool is_time(std::int64_t ns) {
  return ns > -kFarthestNs && ns < kFarthestNs;
}

bool is_range(std::int64_t start_ns, std::int64_t end_ns) {
  return is_time(start_ns) && is_time(end_ns) && start_ns <= end_ns &&
         end_ns - start_ns <= kLongestNs;
}

bool is_sum(std::int64_t ns) {
  return ns >= 0 && ns <= kMostSumNs;
}

bool fit_steps(const RankPart& part) {
  if (part.steps.empty()) return false;
  std::int64_t reached = part.window.start_ns;
  for (const StepLedger& step : part.steps) {
    if (!is_range(step.start_ns, step.end_ns) || step.start_ns < reached) return false;
    if (step.end_ns > part.window.end_ns) return false;
    reached = step.start_ns;
    for (std::size_t i = 0; i < kLedgerLineCount; ++i) {
      if (!is_sum(step.ledger[static_cast<LedgerLine>(i)])) return false;
    }
  }
  return true;
}

bool fit_span(const PartSpan& span, const RankPart& part, std::size_t places) {
  const Window& window = part.window;
  if (!is_range(span.start_ns, span.end_ns)) return false;
  if (span.end_ns <= window.start_ns || span.start_ns >= window.end_ns) return false;
  if (span.start_ns == span.end_ns) return false;
  bool matmul = span.level == Level::matmul;
  bool communication = span.level == Level::communication;
  if (matmul != (span.call != kNone) || (matmul && span.call >= part.calls.size())) return false;
  if (span.place != kNone && (!communication || span.place >= places)) return false;
  bool inside = span.start_ns >= window.start_ns && span.end_ns <= window.end_ns;
  return inside || communication;
}

// The time that no span covers must equal the sum of the steps' idle lines.
bool fit_spans(const RankPart& part, std::size_t places) {
  std::int64_t reached = part.window.start_ns, last = part.window.start_ns, idle = 0;
  for (const PartSpan& span : part.spans) {
    if (!fit_span(span, part, places)) return false;
    std::int64_t from_ns = std::max(span.start_ns, part.window.start_ns);
    if (from_ns < last) return false;
    last = from_ns;
    if (from_ns > reached) idle += from_ns - reached;
    reached = std::max(reached, std::min(span.end_ns, part.window.end_ns));
  }
  idle += part.window.end_ns - reached;
  for (const StepLedger& step : part.steps) idle -= step.ledger.idle_ns();
  return idle == 0;
}

bool fit_calls(const RankPart& part) {
  std::vector<std::uint64_t> spanned = span_lengths(part);
  for (std::size_t i = 0; i < part.calls.size(); ++i) {
    const PartCall& call = part.calls[i];
    if (call.cost >= part.costs.size() || spanned[i] == 0) return false;
    if (call.duration_ns <= 0 || !is_sum(call.duration_ns)) return false;
    if (!(call.inside > 0 && call.inside <= 1)) return false;
  }
  return true;
}

bool fit_tables(const RankPart& part) {
  auto operator_fits = [](const PartOperator& each) {
    return is_sum(each.line.duration_ns) && each.line.calls > 0 &&
           each.counted == each.line.flop.has_value() &&
           (!each.line.rate || std::isfinite(each.line.rate->per_s));
  };
  auto kernel_fits = [](const KernelLine& line) { return is_sum(line.duration_ns); };
  auto idle_fits = [](const IdleLine& line) { return is_sum(line.duration_ns); };
  auto gap_fits = [](const Gap& gap) { return is_range(gap.start_ns, gap.end_ns); };
  auto uncounted_fits = [](const UncountedLine& line) { return line.duration_ns >= 0; };
  auto all = [](const auto& rows, auto fit) { return std::all_of(rows.begin(), rows.end(), fit); };
  return all(part.operators, operator_fits) && all(part.kernels, kernel_fits) &&
         all(part.idle, idle_fits) && all(part.gaps, gap_fits) &&
         all(part.coverage.uncounted, uncounted_fits);
}

bool fit_sums(const RankPart& part) {
  const Intervals& sums = part.intervals;
  const IdleTally& tally = part.tally;
  const HostUse& host = part.host;
  std::int64_t all[] = {sums.busy_ns,
                        sums.idle_ns,
                        sums.compute_ns,
                        sums.communication_ns,
                        sums.exposed_communication_ns,
                        sums.copy_ns,
                        sums.exposed_copy_ns,
                        tally.launch_after_synchronization_ns,
                        tally.cpu_work_ns,
                        tally.graph_unknown_ns,
                        tally.queued_unknown_ns,
                        tally.unlinked_unknown_ns,
                        tally.unseen_unknown_ns,
                        tally.slow_call_ns,
                        host.optimizer_ns,
                        host.optimizer_held_up_ns,
                        host.fusible_ns,
                        host.recomputed_ns,
                        host.most_overhead_ns,
                        host.optimizer.own_ns,
                        host.optimizer.overhead_ns,
                        host.others.own_ns,
                        host.others.overhead_ns,
                        host.all.own_ns,
                        host.all.overhead_ns};
  if (!(host.stretch >= 1 && host.stretch <= 1e3)) return false;
  // The rules divide by the number of tensors.
  if (host.optimizer.count > 0 && host.optimizer_tensors == 0) return false;
  for (const SettledCall& call : host.calls) {
    if (call.cost >= part.costs.size() || !is_sum(call.own_ns)) return false;
    if (!(call.inside >= 0 && call.inside <= 1)) return false;
  }
  return std::all_of(std::begin(all), std::end(all), is_sum);
}

bool fit_timeline(const RankPart& part) {
  for (const PartLane& lane : part.timeline) {
    for (const PartLaneSpan& span : lane.spans) {
      if (!is_range(span.start_ns, span.end_ns) || span.name >= lane.names.size()) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<std::uint64_t> span_lengths(const RankPart& part) {
  std::vector<std::uint64_t> lengths(part.calls.size());
  for (const PartSpan& span : part.spans) {
    if (span.level != Level::matmul || span.call >= lengths.size()) continue;
    lengths[span.call] +=
        static_cast<std::uint64_t>(span.end_ns) - static_cast<std::uint64_t>(span.start_ns);
  }
  return lengths;
}

bool fits(const TraceOutline& outline) {
  const Communication& communication = outline.communication;
  if (outline.communicating.size() != communication.events.size()) return false;
  for (std::size_t i = 0; i < communication.events.size(); ++i) {
    const CommunicationEvent& event = communication.events[i];
    if (event.kind >= communication.texts.size()) return false;
    if (event.group != kNone && event.group >= communication.texts.size()) return false;
    if (outline.communicating[i] >= outline.ranks) return false;
    if (!is_time(event.start_ns) || event.duration_ns < 0 || event.duration_ns > kLongestNs) {
      return false;
    }
  }
  return true;
}

bool fits(const RankPart& part, const TraceOutline& outline) {
  const Window& window = part.window;
  return is_range(window.start_ns, window.end_ns) && fit_steps(part) &&
         fit_spans(part, outline.communication.events.size()) && fit_calls(part) &&
         fit_tables(part) && fit_sums(part) && fit_timeline(part);
}

}  // namespace mfu
