// Forward, backward and recomputation. An operator that runs with gradients on gets autograd's
// sequence number. A backward operator gets the number of its forward operator, and a forward
// thread id above 0. Inside a backward gradients are off, so an operator there with its own number
// is a forward that runs again: checkpointing (docs/formats/kineto.md).
#include <algorithm>
#include <tuple>

#include "trace/link.h"

namespace mfu {
namespace {

constexpr std::string_view kEngine = "autograd::engine::evaluate_function";

struct Numbered {
  std::int64_t sequence, start_ns;
  std::uint32_t row;
};
bool operator<(const Numbered& a, const Numbered& b) {
  return std::tie(a.sequence, a.start_ns, a.row) < std::tie(b.sequence, b.start_ns, b.row);
}

// If several forward operators have one number, the innermost made the node. It is the one that
// started last.
void link_by_sequence(HostEvents& host) {
  Column<Numbered> forwards = host.start_ns.sibling_of<Numbered>();
  for (std::uint32_t row = 0; row < host.size(); ++row) {
    if (host.sequence[row] == kNoId || host.backward[row] != 0) continue;
    forwards.push_back(
        {.sequence = host.sequence[row], .start_ns = host.start_ns[row], .row = row});
  }
  if (!std::is_sorted(forwards.begin(), forwards.end())) {
    std::sort(forwards.data(), forwards.data() + forwards.size());
  }
  for (std::uint32_t row = 0; row < host.size(); ++row) {
    if (host.sequence[row] == kNoId || host.backward[row] == 0) continue;
    Numbered self{.sequence = host.sequence[row], .start_ns = host.start_ns[row], .row = 0};
    const Numbered* after = std::lower_bound(forwards.begin(), forwards.end(), self);
    if (after != forwards.begin() && (after - 1)->sequence == self.sequence) {
      host.forward[row] = (after - 1)->row;
    }
  }
}

// The operator of that thread that starts at that time.
std::uint32_t operator_at(const Trace& trace, std::uint32_t thread, std::int64_t time_ns) {
  const HostEvents& host = trace.host;
  const Thread& rows = trace.threads[thread];
  const std::int64_t* begin = host.start_ns.data() + rows.host_begin;
  const std::int64_t* end = host.start_ns.data() + rows.host_end;
  for (const std::int64_t* at = std::lower_bound(begin, end, time_ns); at != end && *at == time_ns;
       ++at) {
    auto row = static_cast<std::uint32_t>(at - host.start_ns.data());
    if (host.kind[row] == HostKind::op) return row;
  }
  return kNone;
}

// If numbers are missing, the arrows are used.
void link_by_flows(Trace& trace, Column<FlowEnd>& flows) {
  HostEvents& host = trace.host;
  auto by_id = [](const FlowEnd& a, const FlowEnd& b) {
    return std::tie(a.id, b.start) < std::tie(b.id, a.start);  // the tail comes before the head
  };
  std::sort(flows.data(), flows.data() + flows.size(), by_id);
  for (std::size_t i = 0; i + 1 < flows.size(); ++i) {
    if (!flows[i].start || flows[i + 1].start || flows[i].id != flows[i + 1].id) continue;
    std::uint32_t forward = operator_at(trace, flows[i].where, flows[i].time_ns);
    std::uint32_t backward = operator_at(trace, flows[i + 1].where, flows[i + 1].time_ns);
    if (forward == kNone || backward == kNone || host.forward[backward] != kNone) continue;
    host.forward[backward] = forward;
    host.backward[backward] = 1;
  }
}

// For each row, the operator that it ran in. Python frames are left out, because hooks run between
// a node and its operators.
Column<std::uint32_t> operators_around(const HostEvents& host) {
  Column<std::uint32_t> around = host.start_ns.sibling_of<std::uint32_t>();
  around.resize_uninitialized(host.size());
  for (std::uint32_t row = 0; row < host.size(); ++row) {
    std::uint32_t parent = host.parent[row];
    bool frame = parent != kNone && host.kind[parent] == HostKind::python;
    around[row] = frame ? around[parent] : parent;
  }
  return around;
}

// A candidate for recomputation has a number, is no backward itself, and ran inside one.
bool runs_again(const HostEvents& host, std::uint32_t row, std::uint32_t parent) {
  return parent != kNone && host.backward[parent] != 0 && host.backward[row] == 0 &&
         host.kind[row] == HostKind::op && host.sequence[row] != kNoId;
}

// A backward that will be differentiated (create_graph=True) also runs with gradients on. Then
// nearly every node has numbered operators. Under checkpointing only one node of many has.
bool is_double_backward(const Trace& trace, const Column<std::uint32_t>& last_again) {
  const HostEvents& host = trace.host;
  std::uint64_t working = 0, numbered = 0;
  for (std::uint32_t row = 0; row < host.size(); ++row) {
    std::uint32_t parent = host.parent[row];
    bool leaf = parent != kNone && host.backward[parent] != 0 && host.backward[row] != 0 &&
                !trace.text(host.name[row]).starts_with(kEngine) && host.sequence[row] != kNoId;
    if (!leaf || row + 1 >= host.size() || host.parent[row + 1] != row) continue;
    ++working;
    numbered += last_again[row] != kNone;
  }
  return working >= 8 && numbered * 2 > working;
}

}  // namespace

void link_backward(Trace& trace, Unlinked& unlinked) {
  HostEvents& host = trace.host;
  host.forward.resize(host.size(), kNone);
  host.recomputed.resize(host.size(), 0);
  link_by_sequence(host);
  link_by_flows(trace, unlinked.backward_flows);
  unlinked.backward_flows.clear();

  // A row comes after the rows that enclose it, so one pass hands everything down. What lies
  // between two operators that ran again under one node belongs to the same run.
  Column<std::uint32_t> first_again = host.start_ns.sibling_of<std::uint32_t>();
  Column<std::uint32_t> last_again = host.start_ns.sibling_of<std::uint32_t>();
  Column<std::uint32_t> around = operators_around(host);
  first_again.resize(host.size(), kNone);
  last_again.resize(host.size(), kNone);
  std::uint64_t candidates = 0;
  for (std::uint32_t row = 0; row < host.size(); ++row) {
    std::uint32_t parent = around[row];
    if (!runs_again(host, row, parent)) continue;
    if (first_again[parent] == kNone) first_again[parent] = row;
    last_again[parent] = row;
    ++candidates;
  }
  bool recomputing = candidates > 0 && !is_double_backward(trace, last_again);
  for (std::uint32_t row = 0; row < host.size(); ++row) {
    std::uint32_t parent = host.parent[row];
    if (parent == kNone) continue;
    bool own_backward = host.backward[row] != 0;
    if (recomputing && !own_backward) {
      std::uint32_t node = around[row];
      bool between = node != kNone && first_again[node] != kNone && row >= first_again[node] &&
                     row <= last_again[node];
      host.recomputed[row] = between || host.recomputed[parent] != 0;
    }
    host.backward[row] = own_backward || host.backward[parent] != 0;
  }
}

}  // namespace mfu
