#include "attribution/host_state.h"

#include <algorithm>
#include <atomic>

#include "attribution/names.h"
#include "attribution/sweep.h"

namespace mfu {

namespace {

// A shorter operator that launches nothing is a view or a check, and not work of the CPU.
constexpr std::int64_t kCpuWorkNs = 100'000;

std::int64_t end_of(std::int64_t start_ns, std::int64_t duration_ns) {
  return start_ns + std::max<std::int64_t>(duration_ns, 0);
}

// Marks a row of the launches, to tell it from a row of the host.
constexpr std::uint32_t kLaunchBit = 0x8000'0000u;

// Appends what the sweep finds. Busy time becomes one span, whatever caused it.
struct Appender {
  std::vector<HostSpan>& flat;
  std::int64_t interpreter_ns;

  void operator()(std::int64_t from_ns, std::int64_t to_ns, std::size_t level,
                  std::uint32_t owner) const {
    HostSpan span{from_ns, to_ns, static_cast<HostState>(level), kNone, kNone};
    if (span.state == HostState::unseen) {
      if (flat.empty() || to_ns - from_ns > interpreter_ns) return;
      span.state = HostState::busy;
    }
    if (span.state != HostState::busy) {
      bool launch = (owner & kLaunchBit) != 0;
      (launch ? span.launch : span.host) = launch ? owner & ~kLaunchBit : owner;
    }
    append(span);
  }
  void append(const HostSpan& span) const {
    if (!flat.empty() && flat.back().end_ns == span.start_ns && flat.back().state == span.state &&
        flat.back().host == span.host && flat.back().launch == span.launch) {
      flat.back().end_ns = span.end_ns;
    } else {
      flat.push_back(span);
    }
  }
};
using HostSweep = Sweep<kHostStateCount, Appender>;

// Combines the states of several threads into one.
std::vector<HostSpan> together(std::vector<HostSpan> spans) {
  std::vector<HostSpan> flat;
  if (spans.empty()) return flat;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const HostSpan& a, const HostSpan& b) { return a.start_ns < b.start_ns; });
  std::int64_t end_ns = spans.front().start_ns;
  HostSweep sweep(end_ns, INT64_MAX, {flat, 0});
  for (const HostSpan& span : spans) {
    std::uint32_t owner = span.launch != kNone ? span.launch | kLaunchBit
                          : span.host != kNone ? span.host
                                               : 0;
    sweep.add(span.start_ns, span.end_ns, static_cast<std::size_t>(span.state), owner);
    end_ns = std::max(end_ns, span.end_ns);
  }
  sweep.finish_at(end_ns);
  return flat;
}

}  // namespace

HostStates::HostStates(const Trace& trace, std::int64_t interpreter_ns)
    : trace_(trace),
      interpreter_ns_(interpreter_ns),
      has_python_(std::find(trace.host.kind.begin(), trace.host.kind.end(), HostKind::python) !=
                  trace.host.kind.end()),
      facts_(trace.text_count(), TextFact::unknown),
      by_thread_(trace.threads.size()) {
  std::vector<std::uint64_t> launches(trace.threads.size());
  for (std::size_t i = 0; i < trace.device.size(); ++i) {
    std::uint32_t launch = trace.device.launch[i];
    if (launch != kNone) ++launches[trace.launches.thread[launch]];
  }
  std::uint64_t most = 0;
  for (std::uint32_t thread = 0; thread < launches.size(); ++thread) {
    std::uint64_t weight = launches[thread] << 32;
    weight += trace.threads[thread].host_end - trace.threads[thread].host_begin;
    if (main_thread_ == kNone || weight > most) {
      main_thread_ = thread;
      most = weight;
    }
  }
}

HostStates::TextFact HostStates::fact_of(std::uint32_t name) {
  if (name >= facts_.size()) return TextFact::nothing;
  std::atomic_ref<TextFact> known(facts_[name]);  // two threads would find the same
  TextFact fact = known.load(std::memory_order_relaxed);
  if (fact == TextFact::unknown) {
    std::string_view text = trace_.text(name);
    fact = names_data_loading(text)             ? TextFact::data
           : names_blocking_call(text)          ? TextFact::blocking
           : names_synchronizing_operator(text) ? TextFact::synchronizing
           : names_blocking_copy(text)          ? TextFact::copying
           : names_bookkeeping(text)            ? TextFact::bookkeeping
                                                : TextFact::nothing;
    known.store(fact, std::memory_order_relaxed);
  }
  return fact;
}

bool HostStates::waits(std::uint32_t launch) {
  const Launches& calls = trace_.launches;
  return calls.kind[launch] == LaunchKind::synchronize ||
         (calls.kind[launch] == LaunchKind::copy &&
          fact_of(calls.name[launch]) == TextFact::copying);
}

// The operators that wait for the device, because a call that waits runs inside them. Sorted.
std::vector<std::uint32_t> HostStates::waiting_operators(std::uint32_t thread) {
  std::vector<std::uint32_t> waiting;
  const Thread& rows = trace_.threads[thread];
  for (std::uint32_t i = rows.launch_begin; i < rows.launch_end; ++i) {
    if (!waits(i)) continue;
    for (std::uint32_t row = trace_.launches.host[i]; row != kNone; row = trace_.host.parent[row]) {
      bool op = trace_.host.kind[row] == HostKind::op;
      if (op && fact_of(trace_.host.name[row]) == TextFact::synchronizing) waiting.push_back(row);
    }
  }
  std::sort(waiting.begin(), waiting.end());
  return waiting;
}

std::vector<HostSpan> HostStates::spans_of(std::uint32_t thread, bool python) {
  const HostEvents& host = trace_.host;
  const Launches& calls = trace_.launches;
  const Thread& rows = trace_.threads[thread];
  std::vector<std::uint32_t> waiting = waiting_operators(thread);
  std::vector<HostSpan> flat;
  std::int64_t start_ns = INT64_MAX;
  if (rows.host_begin < rows.host_end) start_ns = host.start_ns[rows.host_begin];
  if (rows.launch_begin < rows.launch_end) {
    start_ns = std::min(start_ns, calls.start_ns[rows.launch_begin]);
  }
  if (start_ns == INT64_MAX) return flat;
  std::int64_t end_ns = start_ns;
  HostSweep sweep(start_ns, INT64_MAX, {flat, interpreter_ns_});
  std::uint32_t call = rows.launch_begin;
  auto add_calls_until = [&](std::int64_t until_ns) {
    for (; call < rows.launch_end && calls.start_ns[call] < until_ns; ++call) {
      std::int64_t to_ns = end_of(calls.start_ns[call], calls.duration_ns[call]);
      if (to_ns == calls.start_ns[call]) continue;  // it has no duration and shows nothing
      HostState state = waits(call) ? HostState::synchronize : HostState::busy;
      sweep.add(calls.start_ns[call], to_ns, static_cast<std::size_t>(state), call | kLaunchBit);
      end_ns = std::max(end_ns, to_ns);
    }
  };
  std::int64_t operator_end_ns = INT64_MIN;
  for (std::uint32_t i = rows.host_begin; i < rows.host_end; ++i) {
    std::int64_t from_ns = host.start_ns[i];
    std::int64_t to_ns = end_of(from_ns, host.duration_ns[i]);
    add_calls_until(from_ns);
    if (to_ns == from_ns) continue;
    HostState state = HostState::unseen;
    TextFact fact = fact_of(host.name[i]);
    if (fact == TextFact::data) {
      state = HostState::data;
    } else if (host.kind[i] == HostKind::python) {
      if (python) state = fact == TextFact::blocking ? HostState::blocked : HostState::busy;
    } else if (host.kind[i] == HostKind::op) {
      // also true for one that outlives the operator it began in
      bool outermost = to_ns > operator_end_ns;
      if (outermost) operator_end_ns = to_ns;
      if (std::binary_search(waiting.begin(), waiting.end(), i)) {
        state = HostState::synchronize;
      } else if (outermost) {
        bool launches = call < rows.launch_end && calls.start_ns[call] < to_ns;
        bool work = !launches && to_ns - from_ns >= kCpuWorkNs && fact != TextFact::bookkeeping;
        state = work ? HostState::cpu_work : HostState::busy;
      }
    }
    if (state == HostState::unseen) continue;
    sweep.add(from_ns, to_ns, static_cast<std::size_t>(state), i);
    end_ns = std::max(end_ns, to_ns);
  }
  add_calls_until(INT64_MAX);
  sweep.finish_at(end_ns);
  return flat;
}

void HostStates::visit(const std::vector<HostSpan>& spans, std::int64_t from_ns, std::int64_t to_ns,
                       const Visit& visit) {
  auto span = std::partition_point(spans.begin(), spans.end(),
                                   [&](const HostSpan& each) { return each.end_ns <= from_ns; });
  while (from_ns < to_ns) {
    if (span == spans.end() || span->start_ns >= to_ns) {
      visit({from_ns, to_ns, HostState::unseen, kNone, kNone});
      return;
    }
    if (span->start_ns > from_ns) {
      visit({from_ns, span->start_ns, HostState::unseen, kNone, kNone});
      from_ns = span->start_ns;
    }
    HostSpan part = *span++;
    part.start_ns = from_ns;
    part.end_ns = std::min(part.end_ns, to_ns);
    visit(part);
    from_ns = part.end_ns;
  }
}

const std::vector<HostSpan>& HostStates::known_spans(std::uint32_t thread) {
  if (!by_thread_[thread]) by_thread_[thread] = spans_of(thread, true);
  return *by_thread_[thread];
}

void HostStates::on_thread(std::uint32_t thread, std::int64_t from_ns, std::int64_t to_ns,
                           const Visit& call) {
  if (thread == kNone) {
    call({from_ns, to_ns, HostState::unseen, kNone, kNone});
    return;
  }
  visit(known_spans(thread), from_ns, to_ns, call);
}

void HostStates::on_process(std::int64_t process, std::int64_t from_ns, std::int64_t to_ns,
                            const Visit& call) {
  auto known = by_process_.find(process);
  if (known == by_process_.end()) {
    std::vector<HostSpan> all;
    for (std::uint32_t i = 0; i < trace_.threads.size(); ++i) {
      if (trace_.threads[i].process != process) continue;
      if (!has_python_) {
        const std::vector<HostSpan>& spans = known_spans(i);
        all.insert(all.end(), spans.begin(), spans.end());
      } else {
        std::vector<HostSpan> spans = spans_of(i, false);
        all.insert(all.end(), spans.begin(), spans.end());
      }
    }
    known = by_process_.emplace(process, together(std::move(all))).first;
  }
  visit(known->second, from_ns, to_ns, call);
}

}  // namespace mfu
