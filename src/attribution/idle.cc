#include "attribution/idle.h"

#include <algorithm>

#include "base/text.h"

namespace mfu {

namespace {

constexpr std::size_t kGapsKept = 20;
constexpr std::size_t kLinesKept = 24;
// A launch call takes microseconds, unless the driver first loads the kernel's code.
constexpr std::int64_t kSlowCallNs = 1'000'000;

constexpr const char* kGraphReason =
    "launched by a graph long before, and nothing of the graph was recorded until here: the "
    "profiler seems to have dropped its first kernels";
constexpr const char* kQueuedReason =
    "what came next had been launched long before; what it waited for is not in the trace";
constexpr const char* kUnlinkedReason =
    "what came next has no launch record, and the host shows nothing";
constexpr const char* kUnseenReason =
    "the launching thread was in no operator, call or frame that was recorded";

bool is_framework_frame(std::string_view name) {
  return name.starts_with("torch/") || name.starts_with("nn.Module") || name.starts_with('<') ||
         name.find(".py(") == std::string_view::npos ||
         name.find("site-packages/torch/") != std::string_view::npos ||
         name.find("dist-packages/torch/") != std::string_view::npos ||
         name.starts_with("threading.py") || name.starts_with("contextlib.py") ||
         name.starts_with("runpy.py");
}

}  // namespace

std::uint32_t user_frame(const Trace& trace, std::uint32_t host) {
  for (std::uint32_t row = host; row != kNone; row = trace.host.parent[row]) {
    if (trace.host.kind[row] != HostKind::python) continue;
    if (!is_framework_frame(trace.text(trace.host.name[row]))) return trace.host.name[row];
  }
  return kNone;
}

IdleSplitter::IdleSplitter(const Trace& trace, const Works& works,
                           const AttributionOptions& options, bool cpu, HostStates& states,
                           Charge charge)
    : trace_(trace),
      works_(works),
      options_(options),
      cpu_(cpu),
      charge_(std::move(charge)),
      states_(states),
      has_python_(std::find(trace.host.kind.begin(), trace.host.kind.end(), HostKind::python) !=
                  trace.host.kind.end()) {}

void IdleSplitter::add(std::int64_t from_ns, std::int64_t to_ns, LedgerLine line,
                       std::uint32_t what, std::uint32_t code_row, bool cpu_work) {
  if (to_ns <= from_ns) return;
  charge_(from_ns, to_ns, line);
  gap_[line] += to_ns - from_ns;
  std::uint32_t code = has_python_ ? user_frame(trace_, code_row) : kNone;
  LineSum& sum = sums_[{line, what, code, cpu_work}];
  ++sum.gaps;
  sum.duration_ns += to_ns - from_ns;
  if (line == LedgerLine::idle_launch && after_wait_ && !cpu_work) {
    tally_.launch_after_synchronization_ns += to_ns - from_ns;
  }
}

void IdleSplitter::unknown(std::int64_t from_ns, std::int64_t to_ns, std::int64_t& of,
                           const char* reason) {
  if (to_ns <= from_ns) return;
  add(from_ns, to_ns, LedgerLine::idle_unknown, kNone, kNone);
  of += to_ns - from_ns;
  reason_ = reason;
}

IdleSplitter::Next IdleSplitter::next_of(std::uint32_t span) {
  Next next;
  next.thread = states_.main_thread();
  if (span == kNone) return next;
  if (cpu_) {
    next.host = works_.spans[span].event;
    next.thread = trace_.host.thread[next.host];
    return next;
  }
  std::uint32_t event = works_.spans[span].event;
  std::uint32_t launch = trace_.device.launch[event];
  next.host = trace_.device.host[event];
  if (launch != kNone) {
    next.launch = launch;
    next.thread = trace_.launches.thread[launch];
    next.graph = trace_.launches.kind[launch] == LaunchKind::graph;
    return next;
  }
  // Returns the thread that launched the next recorded event of the stream. Streams keep their
  // order, so that thread most likely launched this event too. It looks ahead a limited number of
  // events.
  constexpr std::uint32_t kLookAhead = 64;
  std::uint32_t lane = trace_.device.lane[event];
  std::uint32_t last = static_cast<std::uint32_t>(
      std::min<std::size_t>(works_.spans.size(), std::size_t{span} + kLookAhead));
  for (std::uint32_t i = span + 1; i < last; ++i) {
    std::uint32_t later = works_.spans[i].event;
    if (trace_.device.lane[later] != lane || trace_.device.launch[later] == kNone) continue;
    next.thread = trace_.launches.thread[trace_.device.launch[later]];
    break;
  }
  return next;
}

// The launching thread shows nothing. Another thread of its process may.
void IdleSplitter::unseen_part(std::int64_t from_ns, std::int64_t to_ns, const Next& next) {
  auto rest = [&](std::int64_t from, std::int64_t to) {
    bool short_gap = gap_end_ns_ - gap_start_ns_ <= options_.dispatch_ns;
    if (next.launch == kNone && !cpu_ && short_gap) {
      add(from, to, LedgerLine::idle_launch, kNone, kNone);
    } else if (next.launch == kNone && !cpu_) {
      unknown(from, to, tally_.unlinked_unknown_ns, kUnlinkedReason);
    } else {
      unknown(from, to, tally_.unseen_unknown_ns, kUnseenReason);
    }
  };
  if (next.thread == kNone) {
    rest(from_ns, to_ns);
    return;
  }
  states_.on_process(
      trace_.threads[next.thread].process, from_ns, to_ns, [&](const HostSpan& span) {
        std::uint32_t name = span.host == kNone ? kNone : trace_.host.name[span.host];
        switch (span.state) {
          case HostState::data:
            add(span.start_ns, span.end_ns, LedgerLine::idle_data, name, span.host);
            break;
          case HostState::synchronize:
            if (span.launch != kNone) name = trace_.launches.name[span.launch];
            add(span.start_ns, span.end_ns, LedgerLine::idle_synchronization, name, span.host);
            break;
          case HostState::cpu_work:
          case HostState::busy:
            add(span.start_ns, span.end_ns, LedgerLine::idle_launch, kNone, kNone);
            break;
          default:
            rest(span.start_ns, span.end_ns);
        }
      });
}

void IdleSplitter::host_part(std::int64_t from_ns, std::int64_t to_ns, const Next& next) {
  std::uint32_t outer = next.host == kNone ? kNone : trace_.outermost_operator(next.host);
  std::uint32_t before = outer == kNone ? kNone : trace_.host.name[outer];
  states_.on_thread(next.thread, from_ns, to_ns, [&](const HostSpan& span) {
    std::uint32_t row = span.host;
    std::uint32_t name = row == kNone ? kNone : trace_.host.name[row];
    switch (span.state) {
      case HostState::data:
        add(span.start_ns, span.end_ns, LedgerLine::idle_data, name, row);
        break;
      case HostState::synchronize:
        after_wait_ = true;
        if (span.launch != kNone) {
          row = trace_.launches.host[span.launch];
          name = trace_.launches.name[span.launch];
        }
        add(span.start_ns, span.end_ns, LedgerLine::idle_synchronization, name, row);
        break;
      case HostState::cpu_work:
        tally_.cpu_work_ns += span.end_ns - span.start_ns;
        add(span.start_ns, span.end_ns, LedgerLine::idle_launch, name, row, true);
        break;
      case HostState::busy:
        add(span.start_ns, span.end_ns, LedgerLine::idle_launch, before, next.host);
        break;
      default:
        unseen_part(span.start_ns, span.end_ns, next);
    }
  });
}

void IdleSplitter::split(std::int64_t from_ns, std::int64_t to_ns, std::uint32_t next_span) {
  ++tally_.gaps;
  gap_ = {};
  reason_ = nullptr;
  after_wait_ = false;
  gap_start_ns_ = from_ns;
  gap_end_ns_ = to_ns;
  Next next = next_of(next_span);
  if (next.launch == kNone) {
    host_part(from_ns, to_ns, next);
  } else {
    std::int64_t start_ns = trace_.launches.start_ns[next.launch];
    std::int64_t end_ns =
        start_ns + std::max<std::int64_t>(trace_.launches.duration_ns[next.launch], 0);
    std::int64_t called_ns = std::clamp(start_ns, from_ns, to_ns);
    std::int64_t returned_ns = std::clamp(end_ns, called_ns, to_ns);
    host_part(from_ns, called_ns, next);
    std::uint32_t outer = next.host == kNone ? kNone : trace_.outermost_operator(next.host);
    std::uint32_t what = outer == kNone ? kNone : trace_.host.name[outer];
    add(called_ns, returned_ns, LedgerLine::idle_launch, what, next.host);
    if (returned_ns - called_ns >= kSlowCallNs) {
      tally_.slow_call_ns += returned_ns - called_ns;
      ++tally_.slow_calls;
    }
    if (to_ns - returned_ns <= options_.dispatch_ns) {
      add(returned_ns, to_ns, LedgerLine::idle_launch, what, next.host);
    } else if (next.graph) {
      unknown(returned_ns, to_ns, tally_.graph_unknown_ns, kGraphReason);
    } else {
      unknown(returned_ns, to_ns, tally_.queued_unknown_ns, kQueuedReason);
    }
  }
  keep(from_ns, to_ns, next_span, next.host);
}

void IdleSplitter::keep(std::int64_t from_ns, std::int64_t to_ns, std::uint32_t next,
                        std::uint32_t host) {
  auto shorter = [](const Kept& a, const Kept& b) {
    return a.end_ns - a.start_ns > b.end_ns - b.start_ns;  // makes a heap whose top is the shortest
  };
  if (kept_.size() == kGapsKept) {
    if (kept_.front().end_ns - kept_.front().start_ns >= to_ns - from_ns) return;
    std::pop_heap(kept_.begin(), kept_.end(), shorter);
    kept_.pop_back();
  }
  kept_.push_back({from_ns, to_ns, gap_, next, host, reason_});
  std::push_heap(kept_.begin(), kept_.end(), shorter);
}

std::vector<IdleLine> IdleSplitter::lines() const {
  std::vector<IdleLine> lines;
  for (const auto& [key, sum] : sums_) {
    lines.push_back({key.cause, std::string(trace_.text(key.what)),
                     std::string(trace_.text(key.code)), sum.gaps, sum.duration_ns, key.cpu_work});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const IdleLine& a, const IdleLine& b) {
    return a.duration_ns > b.duration_ns;
  });
  if (lines.size() > kLinesKept) lines.resize(kLinesKept);
  return lines;
}

std::vector<Gap> IdleSplitter::gaps() const {
  std::vector<Gap> gaps;
  for (const Kept& kept : kept_) {
    Gap& gap = gaps.emplace_back();
    gap.start_ns = kept.start_ns;
    gap.end_ns = kept.end_ns;
    gap.ledger = kept.ledger;
    if (kept.next != kNone) {
      std::uint32_t event = works_.spans[kept.next].event;
      gap.next =
          printable(trace_.text(cpu_ ? trace_.host.name[event] : trace_.device.name[event]), 160);
    }
    std::uint32_t outer = kept.host == kNone ? kNone : trace_.outermost_operator(kept.host);
    if (outer != kNone) gap.host = printable(trace_.text(trace_.host.name[outer]), 160);
    if (kept.reason != nullptr) gap.reason = kept.reason;
  }
  std::sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) {
    std::int64_t left = a.end_ns - a.start_ns;
    std::int64_t right = b.end_ns - b.start_ns;
    return left != right ? left > right : a.start_ns < b.start_ns;
  });
  return gaps;
}

}  // namespace mfu
