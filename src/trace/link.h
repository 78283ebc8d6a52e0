// From separate events to one story: order, nesting, who launched what, which forward a backward
// belongs to, what is communication.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "trace/builder.h"
#include "trace/trace.h"

namespace mfu {

// Longer than this, about 39 hours, is no trace; so that sums over 2^14 streams or threads fit 64
// bits.
inline constexpr std::int64_t kMostSpanNs = std::int64_t{1} << 47;

// In this order; of those with `threads`, so many may be used.
void leave_out_strays(Trace& trace, const Unlinked& unlinked);
void sort_events(Trace& trace, unsigned threads);
void nest_host_events(Trace& trace, bool whole_microseconds, unsigned threads);
void link_device_events(Trace& trace, Unlinked& unlinked);
void link_backward(Trace& trace, Unlinked& unlinked);
void link_collectives(Trace& trace);
void clip_overruns(Trace& trace, bool whole_microseconds);
void find_steps(Trace& trace);

// All of them, by so many threads; a set `cancel` leaves the trace half linked.
void link_trace(Trace& trace, Unlinked& unlinked, unsigned threads,
                const std::atomic<bool>* cancel);

// Rows of a column of ids, found by id. Ids of a real trace lie close together: then it is an
// array. Those of several processes in one file lie in groups: then it is an array for each page of
// ids that are in use. A thread of its own uses it, since it remembers the last page.
class IdIndex {
 public:
  explicit IdIndex(const Column<std::int64_t>& ids)
      : ids_(ids), slots_(ids.sibling_of<std::uint32_t>()) {}
  // Rows are added in order of preference: of two with one id the first stays.
  void prepare();
  void add(std::uint32_t row);
  std::uint32_t find(std::int64_t id) const;  // kNone: no such id

 private:
  static constexpr int kPageBits = 12;
  static constexpr std::int64_t kPage = 1 << kPageBits;
  static constexpr std::size_t kNowhere = SIZE_MAX;

  bool number_pages(std::uint64_t most);
  std::size_t page_of(std::int64_t id) const;  // where its page begins; kNowhere: it has none
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
