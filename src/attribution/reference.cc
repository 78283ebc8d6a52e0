#include "attribution/reference.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "mfu/ops.h"

namespace mfu {

namespace {

struct Interval {
  std::int64_t from, to;
  bool covers(std::int64_t t) const { return from <= t && t < to; }
};

enum class State { data, synchronize, busy, nothing };

class Reference {
 public:
  Reference(const Trace& trace, const AttributionOptions& options)
      : trace_(trace), options_(options) {}

  Ledger ledger(const Window& window) {
    Ledger ledger;
    std::map<std::uint32_t, std::int64_t> matmul_ns;  // by call
    for (std::int64_t t = window.start_ns; t < window.end_ns; ++t) {
      std::size_t owner = owner_at(t);
      if (owner == trace_.device.size()) {
        ++ledger[idle_line(t, window.end_ns)];
      } else if (level(owner) == 0) {
        ++matmul_ns[call_of(owner)];
      } else {
        ++ledger[line_of(level(owner))];
      }
    }
    double at_peak = 0;
    std::int64_t all = 0;
    for (const auto& [call, ns] : matmul_ns) {
      at_peak += std::min(static_cast<double>(ns), ideal_ns(call, window));
      all += ns;
    }
    ledger[LedgerLine::matmul_at_peak] = std::min<std::int64_t>(std::llround(at_peak), all);
    ledger[LedgerLine::matmul_below_peak] = all - ledger[LedgerLine::matmul_at_peak];
    return ledger;
  }

 private:
  Interval device(std::size_t i) const {
    std::int64_t start = trace_.device.start_ns[i];
    return {start, start + trace_.clipped_duration_ns(i)};
  }
  Interval host(std::uint32_t i) const {
    return {trace_.host.start_ns[i], trace_.host.start_ns[i] + trace_.host.duration_ns[i]};
  }
  Interval launch(std::uint32_t i) const {
    return {trace_.launches.start_ns[i],
            trace_.launches.start_ns[i] + trace_.launches.duration_ns[i]};
  }
  std::string_view host_name(std::uint32_t i) const { return trace_.text(trace_.host.name[i]); }

  // The outermost aten::mm that launched the event.
  std::uint32_t call_of(std::size_t event) const {
    std::uint32_t call = kNone;
    for (std::uint32_t row = trace_.device.host[event]; row != kNone;
         row = trace_.host.parent[row]) {
      if (host_name(row) == "aten::mm") call = row;
    }
    return call;
  }

  bool recomputed(std::size_t event) const {
    for (std::uint32_t row = trace_.device.host[event]; row != kNone;
         row = trace_.host.parent[row]) {
      if (trace_.host.recomputed[row] != 0) return true;
    }
    return false;
  }

  int level(std::size_t event) const {
    if (trace_.device.kind[event] == DeviceKind::communication) return 4;
    if (trace_.device.kind[event] != DeviceKind::compute) return 5;
    if (recomputed(event)) return 2;
    std::uint32_t call = call_of(event);
    if (call != kNone) return trace_.host.inputs[call] == kNone ? 1 : 0;
    return trace_.text(trace_.device.name[event]).find("gemm") != std::string_view::npos ? 1 : 3;
  }

  static LedgerLine line_of(int level) {
    static const LedgerLine kLines[] = {LedgerLine::matmul_below_peak,
                                        LedgerLine::matmul_flop_unknown,
                                        LedgerLine::recomputation,
                                        LedgerLine::other_kernels,
                                        LedgerLine::exposed_communication_transfer,
                                        LedgerLine::exposed_copy};
    return kLines[level];
  }

  std::size_t owner_at(std::int64_t t) const {
    std::size_t owner = trace_.device.size();
    for (std::size_t i = 0; i < trace_.device.size(); ++i) {
      if (!device(i).covers(t)) continue;
      if (owner == trace_.device.size() || level(i) < level(owner)) owner = i;
    }
    return owner;  // rows are sorted by start, so the first of a level started first
  }

  double ideal_ns(std::uint32_t call, const Window& window) const {
    std::vector<OperatorInput> inputs = parse_inputs(trace_.text(trace_.host.inputs[call]));
    double flop = 2.0 * static_cast<double>(inputs[0].shapes[0][0]) *
                  static_cast<double>(inputs[0].shapes[0][1]) *
                  static_cast<double>(inputs[1].shapes[0][1]);
    double whole = 0;
    double inside = 0;
    for (std::size_t i = 0; i < trace_.device.size(); ++i) {
      if (trace_.device.kind[i] != DeviceKind::compute || call_of(i) != call) continue;
      Interval span = device(i);
      whole += static_cast<double>(span.to - span.from);
      inside += static_cast<double>(std::max<std::int64_t>(
          0, std::min(span.to, window.end_ns) - std::max(span.from, window.start_ns)));
    }
    return flop * inside / whole / options_.peak->per_s * 1e9;
  }

  bool waits(std::uint32_t call) const {
    std::string_view name = trace_.text(trace_.launches.name[call]);
    return trace_.launches.kind[call] == LaunchKind::synchronize || name == "cudaMemcpy";
  }

  // Whether the host waits inside this operator, as in .item().
  bool waiting_operator(std::uint32_t row) const {
    if (host_name(row) != "aten::item") return false;
    for (std::uint32_t i = 0; i < trace_.launches.size(); ++i) {
      if (!waits(i)) continue;
      for (std::uint32_t up = trace_.launches.host[i]; up != kNone; up = trace_.host.parent[up]) {
        if (up == row) return true;
      }
    }
    return false;
  }

  struct Seen {
    State state;
    Interval interval;
  };

  std::vector<Seen> seen_on(std::uint32_t thread, bool python) const {
    std::vector<Seen> seen;
    const Thread& rows = trace_.threads[thread];
    for (std::uint32_t i = rows.launch_begin; i < rows.launch_end; ++i) {
      seen.push_back({waits(i) ? State::synchronize : State::busy, launch(i)});
    }
    for (std::uint32_t i = rows.host_begin; i < rows.host_end; ++i) {
      if (host_name(i).starts_with("enumerate(DataLoader)")) {
        seen.push_back({State::data, host(i)});
      } else if (trace_.host.kind[i] == HostKind::op) {
        seen.push_back({waiting_operator(i) ? State::synchronize : State::busy, host(i)});
      } else if (trace_.host.kind[i] == HostKind::python && python) {
        seen.push_back({State::busy, host(i)});
      }
    }
    return seen;
  }

  State state_on(std::uint32_t thread, std::int64_t t, bool python) const {
    State state = State::nothing;
    std::int64_t before = INT64_MIN;
    std::int64_t after = INT64_MAX;
    for (const Seen& seen : seen_on(thread, python)) {
      if (seen.interval.to <= seen.interval.from) continue;
      if (seen.interval.covers(t)) state = std::min(state, seen.state);
      if (seen.interval.to <= t) before = std::max(before, seen.interval.to);
      if (seen.interval.from > t) after = std::min(after, seen.interval.from);
    }
    bool between = before != INT64_MIN && after != INT64_MAX;
    if (state == State::nothing && between && after - before <= options_.interpreter_ns) {
      state = State::busy;
    }
    return state;
  }

  std::uint32_t main_thread() const {
    std::vector<std::uint64_t> weight(trace_.threads.size());
    for (std::size_t i = 0; i < trace_.device.size(); ++i) {
      if (trace_.device.launch[i] != kNone) {
        weight[trace_.launches.thread[trace_.device.launch[i]]] += std::uint64_t{1} << 32;
      }
    }
    for (std::size_t i = 0; i < weight.size(); ++i) {
      weight[i] += trace_.threads[i].host_end - trace_.threads[i].host_begin;
    }
    return static_cast<std::uint32_t>(std::max_element(weight.begin(), weight.end()) -
                                      weight.begin());
  }

  LedgerLine idle_line(std::int64_t t, std::int64_t window_end) const {
    std::size_t next = trace_.device.size();
    for (std::size_t i = trace_.device.size(); i-- > 0;) {
      Interval span = device(i);
      if (span.from > t && span.to > span.from) next = i;
    }
    bool none = next == trace_.device.size();
    std::int64_t gap_end = none ? window_end : std::min(window_end, device(next).from);
    std::int64_t gap_start = t;
    while (gap_start > window_start_of() && owner_at(gap_start - 1) == trace_.device.size()) {
      --gap_start;
    }
    std::uint32_t call = none ? kNone : trace_.device.launch[next];
    if (call != kNone) {
      Interval called = launch(call);
      if (t >= called.from && t < called.to) return LedgerLine::idle_launch;
      if (t >= called.from) {
        std::int64_t returned = std::clamp(called.to, gap_start, gap_end);
        return gap_end - returned <= options_.dispatch_ns ? LedgerLine::idle_launch
                                                          : LedgerLine::idle_unknown;
      }
    }
    std::uint32_t thread = main_thread();
    if (call != kNone) {
      thread = trace_.launches.thread[call];
    } else if (!none) {
      for (std::size_t i = next + 1; i < trace_.device.size(); ++i) {
        if (trace_.device.lane[i] != trace_.device.lane[next]) continue;
        if (trace_.device.launch[i] == kNone) continue;
        thread = trace_.launches.thread[trace_.device.launch[i]];
        break;
      }
    }
    State state = trace_.threads.empty() ? State::nothing : state_on(thread, t, true);
    for (std::uint32_t i = 0; state == State::nothing && i < 1; ++i) {
      for (std::uint32_t other = 0; other < trace_.threads.size(); ++other) {
        if (trace_.threads[other].process != trace_.threads[thread].process) continue;
        state = std::min(state, state_on(other, t, false));
      }
    }
    if (state == State::data) return LedgerLine::idle_data;
    if (state == State::synchronize) return LedgerLine::idle_synchronization;
    if (state == State::busy) return LedgerLine::idle_launch;
    bool brief = gap_end - gap_start <= options_.dispatch_ns;
    return call == kNone && brief ? LedgerLine::idle_launch : LedgerLine::idle_unknown;
  }

  std::int64_t window_start_of() const { return trace_.device.start_ns[0]; }

  const Trace& trace_;
  const AttributionOptions& options_;
};

}  // namespace

Ledger reference_ledger(const Trace& trace, const Window& window,
                        const AttributionOptions& options) {
  return Reference(trace, options).ledger(window);
}

}  // namespace mfu
