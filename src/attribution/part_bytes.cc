#include "attribution/part_bytes.h"

#include <algorithm>
#include <type_traits>

#include "attribution/part_archive.h"
#include "attribution/part_check.h"

namespace mfu {

namespace part_layout {

constexpr std::size_t kPolicies = 3;

// The functions below are the layout. Each says what is written of a value and in which order, and
// reads the same back. `P` is const when writing.
template <typename A, typename P>
void texts(A& archive, P& values) {
  archive.each(values, [](auto& a, auto& text) { a.text(text); });
}

template <typename A, typename P>
void maybe_number(A& archive, P& value) {
  archive.maybe(value, [](auto& a, auto& number) { a.number(number); });
}

template <typename A, typename P>
void maybe_real(A& archive, P& value) {
  archive.maybe(value, [](auto& a, auto& number) { a.real(number); });
}

// The values of a trace's notes are whole numbers and texts.
template <typename A, typename P>
void notes(A& archive, P& values) {
  archive.each(values, [](auto& a, auto& note) {
    a.text(note.code);
    a.each(note.values, [](auto& b, auto& named) {
      auto* number = std::get_if<std::int64_t>(&named.second);
      bool whole = number != nullptr;
      b.text(named.first);
      b.flag(whole);
      if constexpr (A::kReads) {
        if (!whole) named.second = std::string();
      }
      if (whole) {
        b.number(std::get<std::int64_t>(named.second));
      } else {
        b.text(std::get<std::string>(named.second));
      }
    });
  });
}

template <typename A, typename P>
void key(A& archive, P& value) {
  archive.choice(value.type, kElementTypeCount);
  archive.flag(value.tf32);
}

// Writes a column as differences to the row before.
template <typename A, typename Rows, typename Of>
void rising(A& archive, Rows& rows, Of of) {
  std::int64_t last = 0;
  archive.column(rows, [&](auto& a, auto& row) {
    auto& value = of(row);
    auto step = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) -
                                          static_cast<std::uint64_t>(last));
    a.number(step);
    if constexpr (A::kReads) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(
          static_cast<std::uint64_t>(last) + static_cast<std::uint64_t>(step));
    }
    last = static_cast<std::int64_t>(value);
  });
}

// Writes the end of a span as its length.
template <typename A, typename Rows>
void lengths(A& archive, Rows& rows) {
  archive.column(rows, [](auto& a, auto& row) {
    auto length = static_cast<std::uint64_t>(row.end_ns) - static_cast<std::uint64_t>(row.start_ns);
    a.count(length);
    if constexpr (A::kReads) {
      row.end_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(row.start_ns) + length);
    }
  });
}

template <typename A, typename P>
void communication(A& archive, P& value) {
  texts(archive, value.texts);
  archive.rows(value.events);
  rising(archive, value.events, [](auto& event) -> auto& { return event.event; });
  rising(archive, value.events, [](auto& event) -> auto& { return event.start_ns; });
  archive.column(value.events, [](auto& a, auto& event) { a.number(event.duration_ns); });
  archive.column(value.events, [](auto& a, auto& event) { a.small(event.kind); });
  archive.column(value.events, [](auto& a, auto& event) { a.small(event.group); });
  archive.column(value.events, [](auto& a, auto& event) { maybe_number(a, event.elements); });
}

template <typename A, typename P>
void outline(A& archive, P& value) {
  archive.text(value.path);
  maybe_number(archive, value.rank);
  maybe_number(archive, value.world_size);
  archive.count(value.json_bytes);
  archive.flag(value.truncated);
  archive.flag(value.compiled);
  archive.flag(value.optimizer);
  notes(archive, value.notes);
  texts(archive, value.secrets);
  communication(archive, value.communication);
  archive.each(value.communicating, [](auto& a, auto& rank) { a.small(rank); });
  archive.count(value.ranks);
}

template <typename A, typename P>
void window(A& archive, P& value) {
  archive.choice(value.policy, kPolicies);
  archive.number(value.start_ns);
  archive.number(value.end_ns);
  archive.count(value.steps);
}

template <typename A, typename P>
void idle_lines(A& archive, P& ledger) {
  for (LedgerLine line : {LedgerLine::idle_data, LedgerLine::idle_launch,
                          LedgerLine::idle_synchronization, LedgerLine::idle_unknown}) {
    std::int64_t ns = ledger[line];
    archive.number(ns);
    if constexpr (A::kReads) ledger[line] = ns;
  }
}

template <typename A, typename P>
void intervals(A& archive, P& value) {
  archive.number(value.busy_ns);
  archive.number(value.idle_ns);
  archive.number(value.compute_ns);
  archive.number(value.communication_ns);
  archive.number(value.exposed_communication_ns);
  archive.number(value.copy_ns);
  archive.number(value.exposed_copy_ns);
}

template <typename A, typename P>
void spans(A& archive, P& part) {
  archive.rows(part.spans);
  archive.column(part.spans, [](auto& a, auto& span) { a.choice(span.level, kLevelCount); });
  rising(archive, part.spans, [](auto& span) -> auto& { return span.start_ns; });
  lengths(archive, part.spans);
  std::int64_t call = -1, place = -1;  // usually the next one
  archive.column(part.spans, [&](auto& a, auto& span) {
    bool matmul = span.level == Level::matmul;
    if (!matmul && span.level != Level::communication) return;
    std::int64_t& last = matmul ? call : place;
    auto& value = matmul ? span.call : span.place;
    std::int64_t step = static_cast<std::int64_t>(value) - last;
    a.number(step);
    if constexpr (A::kReads) {
      value = static_cast<std::uint32_t>(static_cast<std::uint64_t>(last) +
                                         static_cast<std::uint64_t>(step));
    }
    last = static_cast<std::int64_t>(value);
  });
}

template <typename A, typename P>
void calls(A& archive, P& part) {
  archive.each(part.costs, [](auto& a, auto& cost) {
    a.flop(cost.model_flop);
    a.flop(cost.hardware_flop);
    a.count(cost.moved_bytes);
    a.choice(cost.type, kElementTypeCount);
  });
  archive.rows(part.calls);
  archive.column(part.calls, [](auto& a, auto& call) { a.small(call.cost); });
  archive.column(part.calls, [](auto& a, auto& call) { a.flag(call.tf32); });
  archive.column(part.calls, [](auto& a, auto& call) { a.real(call.inside); });
  // Most calls take exactly the time of their spans.
  std::vector<std::uint64_t> spanned = span_lengths(part);
  std::size_t at = 0;
  archive.column(part.calls, [&](auto& a, auto& call) {
    auto more =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(call.duration_ns) - spanned[at]);
    a.number(more);
    if constexpr (A::kReads) {
      call.duration_ns = static_cast<std::int64_t>(spanned[at] + static_cast<std::uint64_t>(more));
    }
    ++at;
  });
}

template <typename A, typename P>
void operators(A& archive, P& values) {
  archive.each(values, [](auto& a, auto& each) {
    auto& line = each.line;
    a.text(line.name);
    a.text(line.shapes);
    a.text(line.dtype);
    a.count(line.calls);
    a.count(line.recomputed_calls);
    a.maybe(line.flop, [](auto& b, auto& flop) { b.flop(flop); });
    a.maybe(line.bytes, [](auto& b, auto& bytes) { b.count(bytes); });
    a.number(line.duration_ns);
    a.maybe(line.rate, [](auto& b, auto& rate) { b.real(rate.per_s); });
    a.text(line.code);
    a.flag(each.counted);
    key(a, each.key);
  });
}

template <typename A, typename P>
void idle(A& archive, P& part) {
  archive.each(part.idle, [](auto& a, auto& line) {
    a.choice(line.cause, kLedgerLineCount);
    a.text(line.what);
    a.text(line.code);
    a.count(line.gaps);
    a.number(line.duration_ns);
    a.flag(line.cpu_work);
  });
  archive.each(part.gaps, [](auto& a, auto& gap) {
    a.number(gap.start_ns);
    a.number(gap.end_ns);
    idle_lines(a, gap.ledger);
    a.text(gap.next);
    a.text(gap.host);
    a.text(gap.reason);
  });
  auto& tally = part.tally;
  for (auto* each : {&tally.launch_after_synchronization_ns, &tally.cpu_work_ns,
                     &tally.graph_unknown_ns, &tally.queued_unknown_ns, &tally.unlinked_unknown_ns,
                     &tally.unseen_unknown_ns, &tally.slow_call_ns}) {
    archive.number(*each);
  }
  archive.count(tally.slow_calls);
  archive.count(tally.gaps);
}

template <typename A, typename P>
void host(A& archive, P& use) {
  for (auto* each : {&use.optimizer_ns, &use.optimizer_held_up_ns, &use.fusible_ns,
                     &use.recomputed_ns, &use.most_overhead_ns}) {
    archive.number(*each);
  }
  archive.count(use.optimizer_tensors);
  archive.count(use.by_hand);
  archive.count(use.rows_taken);
  archive.count(use.cells_called);
  archive.count(use.items);
  archive.real(use.stretch);
  for (auto* each : {&use.optimizer, &use.others, &use.all}) {
    archive.count(each->count);
    archive.number(each->own_ns);
    archive.number(each->overhead_ns);
  }
  archive.rows(use.calls);
  archive.column(use.calls, [](auto& a, auto& call) { a.small(call.cost); });
  archive.column(use.calls, [](auto& a, auto& call) { a.flag(call.tf32); });
  archive.column(use.calls, [](auto& a, auto& call) { a.flag(call.recomputed); });
  archive.column(use.calls, [](auto& a, auto& call) { a.flag(call.in_optimizer); });
  archive.column(use.calls, [](auto& a, auto& call) { a.real(call.inside); });
  archive.column(use.calls, [](auto& a, auto& call) { a.number(call.own_ns); });
}

template <typename A, typename P>
void coverage(A& archive, P& value) {
  archive.count(value.gpu_events);
  archive.count(value.clipped_events);
  archive.count(value.skipped_events);
  maybe_real(archive, value.linked_fraction);
  maybe_real(archive, value.with_shapes_fraction);
  maybe_real(archive, value.graph_launched_fraction);
  archive.each(value.uncounted, [](auto& a, auto& line) {
    a.text(line.name);
    a.text(line.reason);
    a.count(line.calls);
    a.number(line.duration_ns);
  });
}

template <typename A, typename P>
void timeline(A& archive, P& lanes) {
  archive.each(lanes, [](auto& a, auto& lane) {
    a.text(lane.label);
    texts(a, lane.names);
    a.rows(lane.spans);
    rising(a, lane.spans, [](auto& span) -> auto& { return span.start_ns; });
    lengths(a, lane.spans);
    a.column(lane.spans, [](auto& b, auto& span) { b.choice(span.level, kLevelCount); });
    a.column(lane.spans, [](auto& b, auto& span) {
      if (span.level == Level::matmul) key(b, span.key);
    });
    a.column(lane.spans, [](auto& b, auto& span) { b.small(span.name); });
    a.column(lane.spans, [](auto& b, auto& span) { b.small(span.events); });
  });
}

template <typename A, typename P>
void rank(A& archive, P& part) {
  archive.number(part.device_id);
  archive.text(part.device_name);
  archive.maybe(part.units, [](auto& a, auto& units) { a.small(units); });
  archive.maybe(part.memory_bytes, [](auto& a, auto& bytes) { a.count(bytes); });
  archive.flag(part.cpu);
  window(archive, part.window);
  texts(archive, part.window_notes);
  texts(archive, part.assumptions);
  archive.flag(part.steps_marked);
  archive.each(part.steps, [](auto& a, auto& step) {
    a.number(step.number);
    a.number(step.start_ns);
    a.number(step.end_ns);
    idle_lines(a, step.ledger);
  });
  intervals(archive, part.intervals);
  spans(archive, part);
  calls(archive, part);
  archive.each(part.flop, [](auto& a, auto& flop) {
    key(a, flop.key);
    a.flop(flop.model_flop);
    a.flop(flop.hardware_flop);
  });
  operators(archive, part.operators);
  archive.each(part.kernels, [](auto& a, auto& line) {
    a.text(line.name);
    a.text(line.kind);
    a.count(line.calls);
    a.number(line.duration_ns);
  });
  idle(archive, part);
  host(archive, part.host);
  coverage(archive, part.coverage);
  timeline(archive, part.timeline);
}

}  // namespace part_layout

std::string pack_outline(const TraceOutline& value) {
  PartWriter writer;
  part_layout::outline(writer, value);
  return writer.bytes();
}

std::string pack_ranks(const std::vector<RankPart>& ranks) {
  PartWriter writer;
  writer.each(ranks, [](auto& a, auto& part) { part_layout::rank(a, part); });
  return writer.bytes();
}

Result<TraceOutline> unpack_outline(std::string_view bytes) {
  PartReader reader(bytes);
  TraceOutline value;
  part_layout::outline(reader, value);
  if (!reader.good() || !reader.done()) {
    return fail(ErrorCode::malformed, "what it says of a trace does not read");
  }
  if (!fits(value)) return fail(ErrorCode::malformed, "what it says of a trace contradicts itself");
  return value;
}

Result<std::vector<RankPart>> unpack_ranks(std::string_view bytes, const TraceOutline& outline) {
  PartReader reader(bytes);
  std::vector<RankPart> ranks;
  reader.each(ranks, [](auto& a, auto& part) { part_layout::rank(a, part); });
  if (!reader.good() || !reader.done()) {
    return fail(ErrorCode::malformed, "what it says of a device does not read");
  }
  if (ranks.size() != outline.ranks ||
      !std::all_of(ranks.begin(), ranks.end(),
                   [&](const RankPart& part) { return fits(part, outline); })) {
    return fail(ErrorCode::malformed, "what it says of a device contradicts itself");
  }
  return ranks;
}

}  // namespace mfu
