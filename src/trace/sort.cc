// Rows in the order everything after relies on.
#include <algorithm>
#include <iterator>
#include <vector>

#include "trace/link.h"

namespace mfu {
namespace {

struct SortKey {
  std::int64_t start_ns;
  std::uint32_t row;
};

template <typename T>
void reorder(const Column<SortKey>& order, Column<T>& column) {
  if (column.size() != order.size()) return;  // not filled yet
  Column<T> sorted = column.sibling();
  sorted.resize_uninitialized(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) sorted[i] = column[order[i].row];
  column = std::move(sorted);
}

// Profilers write long runs that are in order already, one behind the other: these are found and
// merged, which costs a pass where n log n comparisons would not.
template <typename Before>
void sort_runs(SortKey* begin, SortKey* end, Before before) {
  constexpr std::ptrdiff_t kShortestRun = 16;  // on average; below it nothing is in order
  std::vector<SortKey*> starts;
  for (SortKey* at = begin; at != end; ++at) {
    if (at != begin && !before(*at, at[-1])) continue;
    starts.push_back(at);
    if (std::ssize(starts) * kShortestRun > end - begin + 16 * kShortestRun) {
      std::sort(begin, end, before);
      return;
    }
  }
  while (starts.size() > 1) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < starts.size(); i += 2) {
      if (i + 1 < starts.size()) {
        SortKey* middle = starts[i + 1];
        SortKey* after = i + 2 < starts.size() ? starts[i + 2] : end;
        // Only where they overlap.
        SortKey* from = std::upper_bound(starts[i], middle, *middle, before);
        if (from != middle) {
          std::inplace_merge(from, middle, std::lower_bound(middle, after, middle[-1], before),
                             before);
        }
      }
      starts[kept++] = starts[i];
    }
    starts.resize(kept);
  }
}

// The rows, those of a group together, groups in order. Returns where each group ends.
std::vector<std::size_t> by_group(const Column<std::int64_t>& start_ns,
                                  const Column<std::uint32_t>* group, std::size_t groups,
                                  Column<SortKey>& order) {
  std::vector<std::size_t> ends(groups + 1, 0);  // first where each begins
  if (group != nullptr) {
    for (std::uint32_t each : *group) ++ends[each + 1];
    for (std::size_t i = 0; i < groups; ++i) ends[i + 1] += ends[i];
  }
  order.resize_uninitialized(start_ns.size());
  for (std::size_t i = 0; i < start_ns.size(); ++i) {
    std::size_t& end = ends[group == nullptr ? 0 : (*group)[i]];
    order[end++] = {.start_ns = start_ns[i], .row = static_cast<std::uint32_t>(i)};
  }
  ends.pop_back();
  return ends;
}

// Sorted by group, then start, then `ties` over rows; reorders the columns if they are not.
template <typename Ties, typename... Columns>
void sort_rows(const Column<std::int64_t>& start_ns, const Column<std::uint32_t>* group,
               std::size_t groups, Ties ties, Columns&... columns) {
  auto before = [&ties](const SortKey& a, const SortKey& b) {
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    std::int64_t tie = ties(a.row, b.row);
    return tie != 0 ? tie < 0 : a.row < b.row;
  };
  Column<SortKey> order = start_ns.sibling_of<SortKey>();
  std::size_t begin = 0;
  for (std::size_t end : by_group(start_ns, group, groups, order)) {
    sort_runs(order.data() + begin, order.data() + end, before);
    begin = end;
  }
  bool in_place = true;
  for (std::size_t i = 0; i < order.size(); ++i) in_place = in_place && order[i].row == i;
  if (in_place) return;
  (reorder(order, columns), ...);
}

std::int64_t compare(std::int64_t a, std::int64_t b) {
  return a < b ? -1 : a > b;
}

void find_thread_rows(Trace& trace) {
  for (std::uint32_t row = 0; row < trace.host.size(); ++row) {
    Thread& thread = trace.threads[trace.host.thread[row]];
    if (thread.host_end == 0) thread.host_begin = row;
    thread.host_end = row + 1;
  }
  for (std::uint32_t row = 0; row < trace.launches.size(); ++row) {
    Thread& thread = trace.threads[trace.launches.thread[row]];
    if (thread.launch_end == 0) thread.launch_begin = row;
    thread.launch_end = row + 1;
  }
}

}  // namespace

void sort_events(Trace& trace) {
  DeviceEvents& device = trace.device;
  // Of two that start together on a stream the longer is the later, so that clipping keeps it.
  auto shorter_first = [&](std::uint32_t a, std::uint32_t b) {
    return compare(device.duration_ns[a], device.duration_ns[b]);
  };
  sort_rows(device.start_ns, nullptr, 1, shorter_first, device.name, device.kind, device.lane,
            device.correlation, device.external_id, device.graph_node, device.bytes,
            device.geometry, device.collective, device.duration_ns, device.start_ns);
  Launches& launches = trace.launches;
  auto longer_launch_first = [&](std::uint32_t a, std::uint32_t b) {
    return compare(launches.duration_ns[b], launches.duration_ns[a]);
  };
  sort_rows(launches.start_ns, &launches.thread, trace.threads.size(), longer_launch_first,
            launches.name, launches.kind, launches.correlation, launches.external_id,
            launches.duration_ns, launches.start_ns, launches.thread);
  HostEvents& host = trace.host;
  // The enclosing first; of two with the same ends an annotation or a frame encloses an operator.
  auto enclosing_first = [&](std::uint32_t a, std::uint32_t b) {
    std::int64_t longer = compare(host.duration_ns[b], host.duration_ns[a]);
    if (longer != 0) return longer;
    return static_cast<std::int64_t>(host.kind[b] != HostKind::op) -
           static_cast<std::int64_t>(host.kind[a] != HostKind::op);
  };
  sort_rows(host.start_ns, &host.thread, trace.threads.size(), enclosing_first, host.name,
            host.external_id, host.sequence, host.inputs, host.stack, host.collective,
            host.backward, host.kind, host.duration_ns, host.start_ns, host.thread);
  find_thread_rows(trace);
}

}  // namespace mfu
