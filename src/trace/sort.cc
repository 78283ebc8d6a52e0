// Puts rows into the order on which all later stages rely.
#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <tuple>
#include <vector>

#include "base/threads.h"
#include "trace/link.h"

namespace mfu {
namespace {

struct SortKey {
  std::int64_t start_ns;
  std::uint32_t row;
};

// Memory into which a column is sorted: that of the column that was sorted before it. Most of the
// cost of new memory is the first touch of each page.
using Spares = std::tuple<Column<std::int64_t>, Column<std::uint32_t>, Column<std::uint8_t>,
                          Column<DeviceKind>, Column<LaunchKind>, Column<HostKind>>;

template <typename T>
void reorder(const Column<std::uint32_t>& order, Column<T>& column, Spares& spares) {
  MFU_ASSERT(column.size() == order.size());
  Column<T>& spare = std::get<Column<T>>(spares);
  if (spare.empty()) spare = column.sibling();
  spare.resize_uninitialized(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) spare[i] = column[order[i]];
  std::swap(column, spare);
}

// Sorts blocks that fit into a core's cache, each by one thread. Returns where they start.
template <typename Before>
std::vector<SortKey*> sorted_blocks(SortKey* begin, SortKey* end, Before before, unsigned threads) {
  constexpr std::ptrdiff_t kBlock = 1 << 14;
  std::vector<SortKey*> starts;
  for (SortKey* at = begin; at < end; at += std::min(kBlock, end - at)) starts.push_back(at);
  std::atomic<std::size_t> next{0};
  on_threads(std::min<unsigned>(threads, static_cast<unsigned>(starts.size())), [&] {
    for (std::size_t i = next++; i < starts.size(); i = next++) {
      std::sort(starts[i], i + 1 < starts.size() ? starts[i + 1] : end, before);
    }
  });
  return starts;
}

// Finds the runs that are already in order, and returns where they start. Profilers write long
// ones, one after another. If the runs are short, it sorts blocks and returns those instead.
template <typename Before>
std::vector<SortKey*> sorted_runs(SortKey* begin, SortKey* end, Before before, unsigned threads) {
  // on average; if runs are shorter, nothing is in order
  constexpr std::ptrdiff_t kShortestRun = 16;
  std::vector<SortKey*> starts;
  for (SortKey* at = begin; at != end; ++at) {
    if (at != begin && !before(*at, at[-1])) continue;
    starts.push_back(at);
    if (std::ssize(starts) * kShortestRun > end - begin + 16 * kShortestRun) {
      return sorted_blocks(begin, end, before, threads);
    }
  }
  return starts;
}

// Merges runs pair by pair. Neighbours overlap little, so this costs far less than comparing all.
template <typename Before>
void sort_keys(SortKey* begin, SortKey* end, Before before, unsigned threads) {
  std::vector<SortKey*> starts = sorted_runs(begin, end, before, threads);
  while (starts.size() > 1) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < starts.size(); i += 2) {
      if (i + 1 < starts.size()) {
        SortKey* middle = starts[i + 1];
        SortKey* after = i + 2 < starts.size() ? starts[i + 2] : end;
        // Merges only where the runs overlap.
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

// Returns the rows by group, with the groups in order, and where each group ends.
std::vector<std::size_t> by_group(const Column<std::int64_t>& start_ns,
                                  const Column<std::uint32_t>* group, std::size_t groups,
                                  Column<SortKey>& order) {
  std::vector<std::size_t> ends(groups + 1, 0);  // at first, where each group begins
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

// The order of rows: by group, then by start; `ties` decides between equal rows.
struct RowOrder {
  Column<std::uint32_t> rows;
  std::vector<std::size_t> ends;  // where each group ends
  bool in_place = true;           // whether the rows are already in order
};

template <typename Ties>
RowOrder order_of(const Column<std::int64_t>& start_ns, const Column<std::uint32_t>* group,
                  std::size_t groups, unsigned threads, Ties ties) {
  auto before = [&ties](const SortKey& a, const SortKey& b) {
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    std::int64_t tie = ties(a.row, b.row);
    return tie != 0 ? tie < 0 : a.row < b.row;
  };
  RowOrder order;
  Column<SortKey> keys = start_ns.sibling_of<SortKey>();
  order.ends = by_group(start_ns, group, groups, keys);
  std::size_t begin = 0;
  for (std::size_t end : order.ends) {
    sort_keys(keys.data() + begin, keys.data() + end, before, threads);
    begin = end;
  }
  order.rows = start_ns.sibling_of<std::uint32_t>();
  order.rows.resize_uninitialized(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    order.rows[i] = keys[i].row;
    order.in_place = order.in_place && keys[i].row == i;
  }
  return order;
}

using Reordering = std::function<void(Spares&)>;

template <typename... Columns>
void add_reorderings(const RowOrder& order, std::vector<Reordering>& to, Columns&... columns) {
  if (order.in_place) return;
  (to.push_back([&](Spares& spares) { reorder(order.rows, columns, spares); }), ...);
}

std::int64_t compare(std::int64_t a, std::int64_t b) {
  return a < b ? -1 : a > b;
}

RowOrder device_order(const DeviceEvents& device, unsigned threads) {
  // If two start together on a stream, the longer one comes later, so that clipping keeps it.
  return order_of(device.start_ns, nullptr, 1, threads, [&](std::uint32_t a, std::uint32_t b) {
    return compare(device.duration_ns[a], device.duration_ns[b]);
  });
}

RowOrder launch_order(const Launches& launches, std::size_t groups, unsigned threads) {
  return order_of(launches.start_ns, &launches.thread, groups, threads,
                  [&](std::uint32_t a, std::uint32_t b) {
                    return compare(launches.duration_ns[b], launches.duration_ns[a]);
                  });
}

RowOrder host_order(const HostEvents& host, std::size_t groups, unsigned threads) {
  // The enclosing event comes first. Of two with the same ends, an annotation or a frame encloses
  // an operator.
  return order_of(host.start_ns, &host.thread, groups, threads,
                  [&](std::uint32_t a, std::uint32_t b) {
                    std::int64_t longer = compare(host.duration_ns[b], host.duration_ns[a]);
                    if (longer != 0) return longer;
                    return static_cast<std::int64_t>(host.kind[b] != HostKind::op) -
                           static_cast<std::int64_t>(host.kind[a] != HostKind::op);
                  });
}

struct RowRange {
  std::uint32_t begin = 0, end = 0;  // both 0 if there are none
};
RowRange rows_of(const RowOrder& order, std::size_t group) {
  std::size_t begin = group == 0 ? 0 : order.ends[group - 1], end = order.ends[group];
  if (begin == end) return {};
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

}  // namespace

void sort_events(Trace& trace, unsigned threads) {
  DeviceEvents& device = trace.device;
  Launches& launches = trace.launches;
  HostEvents& host = trace.host;
  RowOrder of_device, of_launches, of_host;
  std::size_t groups = trace.threads.size();
  run_tasks(threads, {[&] { of_host = host_order(host, groups, threads); },
                      [&] { of_launches = launch_order(launches, groups, threads); },
                      [&] { of_device = device_order(device, threads); }});
  std::vector<Reordering> reorderings;
  add_reorderings(of_host, reorderings, host.start_ns, host.duration_ns, host.external_id,
                  host.sequence, host.name, host.thread, host.inputs, host.stack, host.collective,
                  host.kind, host.backward);
  add_reorderings(of_launches, reorderings, launches.start_ns, launches.duration_ns,
                  launches.correlation, launches.external_id, launches.name, launches.thread,
                  launches.kind);
  add_reorderings(of_device, reorderings, device.start_ns, device.duration_ns, device.correlation,
                  device.external_id, device.graph_node, device.bytes, device.name, device.lane,
                  device.geometry, device.collective, device.kind);
  std::atomic<std::size_t> next{0};
  on_threads(threads, [&] {
    Spares spares;
    for (std::size_t i = next++; i < reorderings.size(); i = next++) reorderings[i](spares);
  });
  for (std::size_t i = 0; i < trace.threads.size(); ++i) {
    Thread& thread = trace.threads[i];
    RowRange of_thread = rows_of(of_host, i), calls = rows_of(of_launches, i);
    thread.host_begin = of_thread.begin;
    thread.host_end = of_thread.end;
    thread.launch_begin = calls.begin;
    thread.launch_end = calls.end;
  }
}

}  // namespace mfu
