// One pass over intervals sorted by start that gives every instant to one of them: the one of the
// highest level (0 first); on one level, the one that started first. An instant that none covers is
// a gap, owned by whatever starts next.
//
// Why queues are enough: on one level, an interval only adds what lies beyond the end of those
// before it. So what a level will own from now on is one contiguous range.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>

#include "trace/trace.h"

namespace mfu {

template <std::size_t Levels, typename Emit>
class Sweep {
 public:
  static constexpr std::size_t kGap = Levels;

  // Calls emit(from_ns, to_ns, level, owner) for the instants from start_ns to end_ns, in order.
  Sweep(std::int64_t start_ns, std::int64_t end_ns, Emit emit)
      : now_(start_ns), end_ns_(end_ns), emit_(std::move(emit)) {}

  // Intervals must be added in order of their start.
  void add(std::int64_t from_ns, std::int64_t to_ns, std::size_t level, std::uint32_t owner) {
    if (to_ns <= from_ns) return;
    if (from_ns >= end_ns_) {  // it lies beyond the end, but it ends the last gap
      advance(end_ns_, owner);
      return;
    }
    from_ns = std::max(from_ns, now_);
    to_ns = std::min(to_ns, end_ns_);
    if (to_ns <= from_ns) return;
    advance(from_ns, owner);
    std::int64_t& reached = reached_[level];
    if (to_ns <= reached) return;
    queues_[level].push_back({to_ns, owner});
    reached = to_ns;
  }
  void finish() { advance(end_ns_, kNone); }
  // The same if the end was not known before. end_ns_ must not have been reached.
  void finish_at(std::int64_t end_ns) { advance(end_ns, kNone); }

 private:
  struct Piece {
    std::int64_t to_ns;
    std::uint32_t owner;
  };

  void advance(std::int64_t until_ns, std::uint32_t next) {
    while (now_ < until_ns) {
      std::size_t level = 0;
      for (; level < Levels; ++level) {
        std::deque<Piece>& queue = queues_[level];
        while (!queue.empty() && queue.front().to_ns <= now_) queue.pop_front();
        if (!queue.empty()) break;
      }
      std::int64_t to_ns = until_ns;
      std::uint32_t owner = next;
      if (level < Levels) {
        to_ns = std::min(until_ns, queues_[level].front().to_ns);
        owner = queues_[level].front().owner;
      }
      emit_(now_, to_ns, level, owner);
      now_ = to_ns;
    }
  }

  std::array<std::deque<Piece>, Levels> queues_;
  std::array<std::int64_t, Levels> reached_ = filled();
  static constexpr std::array<std::int64_t, Levels> filled() {
    std::array<std::int64_t, Levels> values{};
    values.fill(INT64_MIN);
    return values;
  }
  std::int64_t now_, end_ns_;
  Emit emit_;
};

}  // namespace mfu
