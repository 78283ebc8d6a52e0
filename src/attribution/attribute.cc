#include "attribution/attribute.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "attribution/book.h"
#include "attribution/counted.h"
#include "attribution/findings.h"
#include "attribution/ranks.h"
#include "attribution/sweep.h"
#include "base/saturating.h"
#include "base/text.h"

namespace mfu {

namespace {

constexpr std::array<LedgerLine, kLevelCount> kLineOfLevel = {
    LedgerLine::matmul_below_peak,  // settled by the book
    LedgerLine::matmul_flop_unknown, LedgerLine::recomputation,
    LedgerLine::other_kernels,       LedgerLine::exposed_communication_transfer,
    LedgerLine::exposed_copy};

// Finds the device by what the trace says about it.
std::optional<Device> known_device(const AttributionOptions& options, const RankPart& part) {
  if (part.device_name.empty()) return std::nullopt;
  const Catalog& catalog = options.catalog != nullptr ? *options.catalog : Catalog::builtin();
  DeviceTraits traits{.name = part.device_name, .units = part.units};
  if (part.memory_bytes) traits.memory = Bytes{*part.memory_bytes};
  Result<Device> found = identify_device(catalog, traits);
  return found.has_value() ? std::optional(*found) : std::nullopt;
}

std::string_view type_text(const std::optional<Precision>& precision) {
  return precision ? name_of(*precision) : "others";
}

// one for each communicating event of a trace
using Waits = std::vector<std::optional<std::int64_t>>;

// Gives every instant of the window to one line. Instants that nothing covers are in the steps'
// ledgers already.
void write_ledger(const Waits& waits, RankPart& part, Peaks& peaks, RankAttribution& rank) {
  Book book(std::move(part.steps));
  auto emit = [&](std::int64_t from_ns, std::int64_t to_ns, std::size_t level,
                  std::uint32_t owner) {
    if (level == kLevelCount) return;
    const PartSpan& span = part.spans[owner];
    if (level == static_cast<std::size_t>(Level::matmul)) {
      book.charge_matmul(from_ns, to_ns, span.call);
    } else if (span.place != kNone && waits[span.place]) {
      std::int64_t waited_ns =
          std::clamp(saturating_sum(span.start_ns, *waits[span.place]), from_ns, to_ns);
      book.charge(from_ns, waited_ns, LedgerLine::exposed_communication_wait);
      book.charge(waited_ns, to_ns, LedgerLine::exposed_communication_transfer);
    } else {
      book.charge(from_ns, to_ns, kLineOfLevel[level]);
    }
  };
  Sweep<kLevelCount, decltype(emit)> sweep(part.window.start_ns, part.window.end_ns, emit);
  for (std::uint32_t i = 0; i < part.spans.size(); ++i) {
    const PartSpan& span = part.spans[i];
    Level level = span.level;
    if (level == Level::matmul && !peaks.of(part, part.calls[span.call]).rate) {
      level = Level::matmul_unknown;
    }
    sweep.add(span.start_ns, span.end_ns, static_cast<std::size_t>(level), i);
  }
  sweep.finish();
  book.settle(part, peaks);
  rank.steps = book.take();
  for (const StepLedger& step : rank.steps) rank.ledger += step.ledger;
  if (!part.steps_marked) rank.steps.clear();
  MFU_ASSERT(rank.ledger.total_ns() == part.window.duration_ns());
}

struct TypeSum {
  TypedWork work;
  const ChosenPeak* peak = nullptr;
};

// Sums what the calls needed and executed, and computes what that is of their peaks.
void count_flop(const RankPart& part, Peaks& peaks, RankAttribution& rank) {
  std::map<std::optional<Precision>, TypeSum> by_type;
  for (const PartFlop& flop : part.flop) {
    rank.model_flop = rank.model_flop.value_or(FlopCount(0)) + flop.model_flop;
    rank.hardware_flop = rank.hardware_flop.value_or(FlopCount(0)) + flop.hardware_flop;
    const ChosenPeak& peak = peaks.of(flop.key);
    if (!peak.rate) continue;
    TypeSum& type = by_type[peak.precision];
    type.peak = &peak;
    type.work.peak = peak.rate;
    type.work.model_flop += flop.model_flop;
    type.work.hardware_flop = type.work.hardware_flop.value_or(FlopCount(0)) + flop.hardware_flop;
  }
  auto most = std::max_element(by_type.begin(), by_type.end(), [](const auto& a, const auto& b) {
    return *a.second.work.hardware_flop < *b.second.work.hardware_flop;
  });
  if (most == by_type.end() || *most->second.work.hardware_flop == FlopCount(0)) return;
  rank.precision = most->first;
  rank.peak = most->second.peak->rate;
  rank.peak_source = most->second.peak->source;
  UtilizationInput input{.duration = std::chrono::nanoseconds(rank.window.duration_ns())};
  for (const auto& [precision, type] : by_type) input.work.push_back(type.work);
  Result<Utilization> used = utilization_of(input);
  if (used.has_value()) {
    rank.mfu = used->mfu.value;
    rank.hfu = used->hfu->value;
  }
  for (const auto& [precision, type] : by_type) {
    if (type.peak->reason != PeakReason::wider_unit) continue;
    rank.notes.push_back({"held_against_wider",
                          {{"dtype", std::string(name_of(*precision))},
                           {"against", std::string(name_of(*type.peak->against))}}});
  }
  for (const auto& [precision, type] : by_type) {
    if (precision == most->first || *type.work.hardware_flop == FlopCount(0)) continue;
    rank.notes.push_back({"several_types",
                          {{"dtype", std::string(type_text(rank.precision))},
                           {"other", std::string(type_text(precision))},
                           {"peak_flop_per_s", type.work.peak->per_s}}});
  }
}

void use_given_flop(const AttributionOptions& options, RankAttribution& rank) {
  if (!options.model_flop_per_rank) return;
  rank.model_flop = options.model_flop_per_rank;
  Result<Utilization> used =
      utilization_of({.work = {{.model_flop = *rank.model_flop, .peak = rank.peak}},
                      .duration = std::chrono::nanoseconds(rank.window.duration_ns())});
  rank.mfu = used.has_value() ? std::optional(used->mfu.value) : std::nullopt;
  rank.notes.push_back({"model_given", {}});
}

// If FLOPs are missing, a note says why MFU may be too low.
void note_unknown_flop(RankAttribution& rank) {
  std::int64_t unknown_ns = rank.ledger[LedgerLine::matmul_flop_unknown];
  if (rank.device && !rank.mfu && unknown_ns > 0) {
    rank.notes.push_back({"no_flop_known", {}});
    return;
  }
  if (!rank.mfu || 100 * unknown_ns <= rank.ledger.matmul_ns()) return;
  Note note{"lower_bound",
            {{"fraction",
              static_cast<double>(unknown_ns) / static_cast<double>(rank.ledger.matmul_ns())}}};
  if (!rank.coverage.uncounted.empty()) {
    const UncountedLine& most = rank.coverage.uncounted.front();  // the one that took the longest
    if (2 * most.duration_ns > unknown_ns) {
      note.code = "lower_bound_by";
      note.values.emplace_back("calls", static_cast<std::int64_t>(most.calls));
      note.values.emplace_back("operator", printable(most.name, 100));
      note.values.emplace_back("reason", printable(most.reason, 200));
    }
  }
  rank.notes.push_back(std::move(note));
}

// MFU and the line matmul_at_peak are the same number, with these exceptions: a call took less time
// than the peak allows, because its algorithm multiplies less than is counted (Winograd, FFT); two
// matmuls ran at once on two streams; or the model's own FLOPs were given. The line cannot hold
// more than the time there was.
void note_faster_than_peak(const RankPart& part, Peaks& peaks, RankAttribution& rank) {
  double window = static_cast<double>(rank.window.duration_ns());
  double fast_ns = 0;
  std::int64_t fast_calls = 0;
  double beside_ns = 0;
  for (const PartCall& call : part.calls) {
    double ideal = peaks.ideal_ns(part, call).value_or(0);
    double own = static_cast<double>(call.duration_ns) * call.inside;
    double attributed = static_cast<double>(call.attributed_ns);
    if (ideal > own) {
      fast_ns += ideal - own;
      ++fast_calls;
    }
    beside_ns += std::max(0.0, std::min(ideal, own) - attributed);
  }
  constexpr double kWorthTelling = 0.0005;
  auto given = [](const Note& note) { return note.code == "model_given"; };
  if (std::any_of(rank.notes.begin(), rank.notes.end(), given)) return;
  if (!rank.mfu || rank.counted || fast_ns + beside_ns < kWorthTelling * window) return;
  rank.notes.push_back(
      {"faster_than_peak",
       {{"mfu", *rank.mfu},
        {"at_peak_fraction", static_cast<double>(rank.ledger[LedgerLine::matmul_at_peak]) / window},
        {"calls", fast_calls},
        {"faster_fraction", fast_ns / window},
        {"beside_fraction", beside_ns / window}}});
}

// The times of a CPU's operators mean little if other processes had the cores.
void note_preempted(RankAttribution& rank) {
  constexpr double kMuchPreempted = 0.1;
  if (!rank.cpu || !rank.counted || rank.counted->wall.count() <= 0) return;
  double fraction = static_cast<double>(rank.counted->waited.count()) /
                    static_cast<double>(rank.counted->wall.count());
  if (fraction < kMuchPreempted) return;
  rank.notes.push_back({"window_preempted", {{"fraction", std::min(fraction, 1.0)}}});
}

void add_notes(const TraceOutline& trace, const RankPart& part, Peaks& peaks,
               RankAttribution& rank) {
  for (const std::string& code : part.assumptions) rank.notes.emplace_back(code, NoteValues{});
  note_unknown_flop(rank);
  if (rank.mfu && *rank.mfu > 1) {
    rank.notes.push_back(
        {"mfu_above_peak", {{"fraction", *rank.mfu}, {"peak_source", rank.peak_source}}});
  } else {
    note_faster_than_peak(part, peaks, rank);
  }
  note_preempted(rank);
  std::int64_t unknown = rank.ledger[LedgerLine::idle_unknown];
  double window = static_cast<double>(rank.window.duration_ns());
  if (static_cast<double>(part.tally.graph_unknown_ns) > 0.02 * window) {
    rank.notes.push_back({"graph_kernels_lost", {{"duration_ns", part.tally.graph_unknown_ns}}});
  } else if (static_cast<double>(unknown) > 0.05 * window) {
    auto gap = std::find_if(rank.gaps.begin(), rank.gaps.end(),
                            [](const Gap& each) { return !each.reason.empty(); });
    if (gap != rank.gaps.end()) {
      rank.notes.push_back({"idle_for_no_reason",
                            {{"duration_ns", unknown},
                             {"longest_ns", gap->end_ns - gap->start_ns},
                             {"next", gap->next.substr(0, 60)},
                             {"reason", gap->reason}}});
    }
  }
  rank.notes.insert(rank.notes.end(), trace.notes.begin(), trace.notes.end());
}

LedgerLine line_of(const PartLaneSpan& span, Peaks& peaks) {
  if (span.level == Level::matmul && !peaks.of(span.key).rate) {
    return LedgerLine::matmul_flop_unknown;
  }
  return kLineOfLevel[static_cast<std::size_t>(span.level)];
}

std::vector<LaneTimeline> drawn(RankPart& part, Peaks& peaks) {
  std::vector<LaneTimeline> lanes;
  for (PartLane& lane : part.timeline) {
    LaneTimeline& made = lanes.emplace_back();
    made.label = std::move(lane.label);
    made.names = std::move(lane.names);
    for (const PartLaneSpan& span : lane.spans) {
      made.spans.push_back(
          {span.start_ns, span.end_ns, line_of(span, peaks), span.name, span.events});
    }
  }
  return lanes;
}

std::vector<OperatorLine> compared(std::vector<PartOperator>&& operators, Peaks& peaks) {
  std::vector<OperatorLine> lines;
  for (PartOperator& each : operators) {
    OperatorLine& line = lines.emplace_back(std::move(each.line));
    if (!each.counted) continue;
    line.peak = peaks.of(each.key).rate;
    if (line.rate && line.peak) line.peak_fraction = of_peak(*line.rate, *line.peak);
  }
  return lines;
}

void note_device(bool known, RankAttribution& rank) {
  if (rank.cpu) rank.notes.push_back({"cpu_is_the_device", {}});
  if (known) return;
  if (rank.cpu) {
    rank.notes.push_back({"no_peak_of_cpu", {}});
  } else if (rank.device_name.empty()) {
    rank.notes.push_back({"no_device_named", {}});
  } else {
    rank.notes.push_back({"device_not_known", {{"device", printable(rank.device_name)}}});
  }
}

struct OtherRanks {
  bool several = false;
  const Waits& waits;
};

RankAttribution attribute_rank(const TraceOutline& trace, RankPart part,
                               const AttributionOptions& options, const OtherRanks& others) {
  RankAttribution rank;
  rank.path = trace.path;
  rank.rank = trace.rank;
  rank.device_id = part.device_id;
  rank.cpu = part.cpu;
  rank.device_name = part.device_name;
  rank.device = options.device;
  if (!rank.device && !part.cpu) rank.device = known_device(options, part);
  Peaks peaks({.device = rank.device ? &*rank.device : nullptr,
               .given = options.peak,
               .precision = options.precision});
  note_device(rank.device || options.peak, rank);
  rank.window = part.window;
  for (const std::string& code : part.window_notes) rank.notes.emplace_back(code, NoteValues{});
  rank.intervals = part.intervals;
  write_ledger(others.waits, part, peaks, rank);
  rank.idle = std::move(part.idle);
  rank.gaps = std::move(part.gaps);
  count_flop(part, peaks, rank);
  const ProfiledWindow* counted = counted_window(options, rank.path);
  if (counted != nullptr) {
    rank.counted = *counted;
    if (!rank.rank) rank.rank = counted->rank;
    use_counted(*counted, part, peaks, rank);
  }
  use_given_flop(options, rank);
  rank.operators = compared(std::move(part.operators), peaks);
  rank.kernels = std::move(part.kernels);
  rank.coverage = std::move(part.coverage);
  if (rank.ledger[LedgerLine::matmul_flop_unknown] == 0) {  // the observer counted them
    std::erase_if(rank.coverage.uncounted,
                  [](const UncountedLine& each) { return each.reason == kNoOperator; });
  }
  if (options.timeline) rank.timeline = drawn(part, peaks);
  HostUse host = with_overhead(part, peaks);
  Situation situation{trace,  part, rank, host, peaks, others.several, options.peak.has_value(),
                      counted};
  rank.findings = findings_of(situation);
  add_notes(trace, part, peaks, rank);
  return rank;
}

// Notes ranks that have two files: traces of two attempts, or a trace that was given twice.
void note_ranks_twice(std::span<const TraceOutline* const> traces, Attribution& whole) {
  std::map<std::int64_t, const TraceOutline*> first;
  std::int64_t more = 0;
  std::optional<Note> note;
  for (const TraceOutline* trace : traces) {
    if (!trace->rank) continue;
    auto [known, added] = first.try_emplace(*trace->rank, trace);
    if (added) continue;
    ++more;
    if (note) continue;
    note = Note{"rank_twice",
                {{"rank", *trace->rank},
                 {"path", printable(known->second->path)},
                 {"other", printable(trace->path)}}};
  }
  if (!note) return;
  note->values.emplace_back("more", more);
  whole.notes.push_back(std::move(*note));
}

// Adds ranks up as they come.
class Whole {
 public:
  void add(RankAttribution rank) {
    whole_.ledger += rank.ledger;
    if (rank.mfu) {
      needed_ += *rank.mfu * static_cast<double>(rank.window.duration_ns());
      window_ += static_cast<double>(rank.window.duration_ns());
    }
    whole_.ranks.push_back(std::move(rank));
  }
  Attribution finish(const RankWaits& matching) {
    if (window_ > 0) whole_.mfu = needed_ / window_;
    if (matching.matched > 0) {
      auto most = std::max_element(matching.blamed_ns.begin(), matching.blamed_ns.end());
      if (*most > 0) whole_.slowest = static_cast<std::size_t>(most - matching.blamed_ns.begin());
    } else if (whole_.ranks.size() > 1) {
      whole_.notes.push_back({"no_collective_matched", {}});
    }
    whole_.findings = findings_of_all(whole_.ranks, whole_.mfu);
    return std::move(whole_);
  }
  Attribution& so_far() { return whole_; }
  std::size_t ranks() const { return whole_.ranks.size(); }

 private:
  Attribution whole_;
  double needed_ = 0, window_ = 0;
};

}  // namespace

Result<Attribution> attribute(std::span<const TraceOutline* const> traces, const RanksOf& ranks_of,
                              const AttributionOptions& options) {
  std::size_t ranks = 0;
  Whole whole;
  for (const TraceOutline* trace : traces) {
    ranks += trace->ranks;
    whole.so_far().partial = whole.so_far().partial || trace->truncated;
  }
  if (ranks == 0) {
    return fail(ErrorCode::malformed,
                fmt::format("{}: neither device events nor operators in it; record with "
                            "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
                            traces.empty() ? "no trace" : traces.front()->path));
  }
  note_ranks_twice(traces, whole.so_far());
  RankWaits matching = waits_of(traces);
  for (Note& note : matching.notes) whole.so_far().notes.push_back(std::move(note));
  for (std::size_t i = 0; i < traces.size(); ++i) {
    std::vector<RankPart> parts = MFU_TRY(ranks_of(i));
    for (RankPart& part : parts) {
      RankAttribution rank =
          attribute_rank(*traces[i], std::move(part), options, {ranks > 1, matching.waits[i]});
      rank.communication_wait_ns = matching.waited_ns[whole.ranks()];
      whole.add(std::move(rank));
    }
  }
  return whole.finish(matching);
}

Result<Attribution> attribute(std::span<const Trace> traces, const AttributionOptions& options) {
  std::vector<TracePart> parts;
  for (const Trace& trace : traces) parts.push_back(MFU_TRY(condense(trace, options)));
  std::vector<const TraceOutline*> outlines;
  for (const TracePart& part : parts) outlines.push_back(&part.outline);
  return attribute(
      outlines,
      [&](std::size_t trace) -> Result<std::vector<RankPart>> {
        return std::move(parts[trace].ranks);
      },
      options);
}

Result<Attribution> attribute(const Traces& traces, const AttributionOptions& options) {
  return attribute(traces.all(), options);
}

}  // namespace mfu
