// Removes events that cannot belong to this trace. A time of zero or a broken number is decades
// away from all other events, and a single such event would make the window that long.
#include <algorithm>
#include <vector>

#include "trace/link.h"

namespace mfu {
namespace {

// Adds the starts of some rows, spread over the column.
void add_sample(const Column<std::int64_t>& start_ns, std::vector<std::int64_t>& sample) {
  constexpr std::size_t kSampled = 4096;
  std::size_t every = start_ns.size() / kSampled + 1;
  for (std::size_t i = 0; i < start_ns.size(); i += every) sample.push_back(start_ns[i]);
}

// The times near the middle one, where most events are.
class Neighbourhood {
 public:
  explicit Neighbourhood(std::vector<std::int64_t> sample) {
    if (sample.empty()) return;
    auto middle = sample.begin() + static_cast<std::ptrdiff_t>(sample.size() / 2);
    std::nth_element(sample.begin(), middle, sample.end());
    from_ns_ = *middle - kMostSpanNs;
    to_ns_ = *middle + kMostSpanNs;
  }
  bool has(std::int64_t start_ns) const { return start_ns >= from_ns_ && start_ns <= to_ns_; }

  // Keeps the rows in it. Returns how many others there were.
  template <typename... Columns>
  std::uint64_t keep(Column<std::int64_t>& start_ns, Columns&... columns) const {
    std::size_t rows = start_ns.size();
    (keep_rows(start_ns, columns, rows), ...);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      if (has(start_ns[i])) start_ns[kept++] = start_ns[i];
    }
    start_ns.resize_uninitialized(kept);
    return rows - kept;
  }

 private:
  template <typename T>
  void keep_rows(const Column<std::int64_t>& start_ns, Column<T>& column, std::size_t rows) const {
    MFU_ASSERT(column.size() == rows);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      if (has(start_ns[i])) column[kept++] = column[i];
    }
    column.resize_uninitialized(kept);
  }
  std::int64_t from_ns_ = 0, to_ns_ = 0;
};

}  // namespace

void leave_out_strays(Trace& trace, const Unlinked& unlinked) {
  if (unlinked.first_ns > unlinked.last_ns || unlinked.last_ns - unlinked.first_ns <= kMostSpanNs) {
    return;
  }
  // The device and the host may have different clocks.
  std::vector<std::int64_t> of_device, of_host;
  DeviceEvents& device = trace.device;
  Launches& launches = trace.launches;
  HostEvents& host = trace.host;
  add_sample(device.start_ns, of_device);
  add_sample(launches.start_ns, of_host);
  add_sample(host.start_ns, of_host);
  Neighbourhood near_device(std::move(of_device)), near_host(std::move(of_host));
  std::uint64_t strays =
      near_device.keep(device.start_ns, device.duration_ns, device.name, device.kind, device.lane,
                       device.correlation, device.external_id, device.graph_node, device.bytes,
                       device.geometry, device.collective);
  strays += near_host.keep(launches.start_ns, launches.duration_ns, launches.name, launches.kind,
                           launches.thread, launches.correlation, launches.external_id);
  strays += near_host.keep(host.start_ns, host.duration_ns, host.name, host.kind, host.thread,
                           host.external_id, host.sequence, host.inputs, host.stack,
                           host.collective, host.backward);
  trace.coverage.skipped_events += strays;
  if (strays == 0) return;
  trace.coverage.notes.push_back(
      {"events_days_away", {{"count", static_cast<std::int64_t>(strays)}}});
}

}  // namespace mfu
