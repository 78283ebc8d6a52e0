// Connects separate events: their order and nesting, which call launched which kernel, which
// forward a backward belongs to, and which events communicate.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "trace/builder.h"
#include "trace/trace.h"

namespace mfu {

// A trace is not longer than this, about 39 hours. So sums over 2^14 streams or threads fit 64
// bits.
inline constexpr std::int64_t kMostSpanNs = std::int64_t{1} << 47;

// The steps of linking, in this order. Those with `threads` may use so many threads.
void leave_out_strays(Trace& trace, const Unlinked& unlinked);
void sort_events(Trace& trace, unsigned threads);
void nest_host_events(Trace& trace, bool whole_microseconds, unsigned threads);
void link_device_events(Trace& trace, Unlinked& unlinked);
void link_backward(Trace& trace, Unlinked& unlinked);
void link_collectives(Trace& trace);
void clip_overruns(Trace& trace, bool whole_microseconds);
void find_steps(Trace& trace);

// Runs all steps with up to so many threads. If `cancel` is set, it stops with the trace half
// linked.
void link_trace(Trace& trace, Unlinked& unlinked, unsigned threads,
                const std::atomic<bool>* cancel);

// Finds the row of an id in a column of ids. In most traces the ids are close together, so it is an
// array. If a file has several processes, the ids are in groups, so there is an array for each page
// of ids in use. Only one thread may use an index, because it remembers the last page.
class IdIndex {
 public:
  explicit IdIndex(const Column<std::int64_t>& ids)
      : ids_(ids), slots_(ids.sibling_of<std::uint32_t>()) {}
  // Rows must be added in order of preference: of two with the same id, the first is found.
  void prepare();
  void add(std::uint32_t row);
  std::uint32_t find(std::int64_t id) const;  // kNone if there is no such id

 private:
  static constexpr int kPageBits = 12;
  static constexpr std::int64_t kPage = 1 << kPageBits;
  static constexpr std::size_t kNowhere = SIZE_MAX;

  bool number_pages(std::uint64_t most);
  // where the id's page begins; kNowhere if it has none
  std::size_t page_of(std::int64_t id) const;
  std::size_t slot_of(std::int64_t id) const;
  const Column<std::int64_t>& ids_;
  Column<std::uint32_t> slots_;
  std::int64_t lowest_ = 0, highest_ = -1;
  bool dense_ = true, paged_ = false;
  std::unordered_map<std::int64_t, std::size_t> pages_;  // where each begins in slots_
  mutable std::int64_t last_page_ = 0;
  mutable std::size_t last_place_ = kNowhere;
};

}  // namespace mfu
