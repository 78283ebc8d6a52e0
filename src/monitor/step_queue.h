// A bounded queue of logged steps, many producers, one consumer, in memory that outlives the
// process where it has a name: what a killed process had logged can still be read there. A producer
// never waits; a full queue drops and counts. After D. Vyukov's bounded queue: each slot carries
// its turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mfu/result.h"
#include "monitor/logged_step.h"

namespace mfu {

inline constexpr std::uint64_t kQueueMagic = 0x3150455453554d46;  // "FMUSTEP1"
inline constexpr std::size_t kMostQueue = 1 << 20;

// One slot. `turn` is its position while free, position + 1 while it holds a step.
struct alignas(128) QueueSlot {
  std::atomic<std::uint64_t> turn;
  LoggedStep step;
};
static_assert(sizeof(QueueSlot) == 128);

struct alignas(128) QueueHeader {
  std::uint64_t magic;
  std::uint64_t capacity;
  alignas(128) std::atomic<std::uint64_t> head;     // next position to be claimed
  alignas(128) std::atomic<std::uint64_t> dropped;  // calls that found it full
};

class StepQueue {
 public:
  // In a file in memory (`path`, made new), or in private memory where that is empty. All pages are
  // there before this returns: a store cannot fault or fail later. The file is locked while its
  // process lives, whatever its number in whichever container: by that others know.
  static Result<StepQueue> create(const std::string& path, std::size_t capacity);
  StepQueue(StepQueue&& other) noexcept;
  StepQueue& operator=(StepQueue&& other) noexcept;
  ~StepQueue();

  // A slot to fill, null where the queue is full; publish() hands it over.
  LoggedStep* claim(std::uint64_t& position) noexcept {
    std::uint64_t at = header_->head.load(std::memory_order_relaxed);
    while (true) {
      QueueSlot& slot = slots_[at & mask_];
      std::uint64_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn == at) {
        if (header_->head.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
          position = at;
          return &slot.step;
        }
      } else if (turn < at) {
        header_->dropped.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
      } else {
        at = header_->head.load(std::memory_order_relaxed);
      }
    }
  }
  void publish(std::uint64_t position) noexcept {
    slots_[position & mask_].turn.store(position + 1, std::memory_order_release);
  }

  // For the consumer: the step at a position, null while it is not published. It stays until freed.
  const LoggedStep* at(std::uint64_t position) const noexcept {
    const QueueSlot& slot = slots_[position & mask_];
    return slot.turn.load(std::memory_order_acquire) == position + 1 ? &slot.step : nullptr;
  }
  void free(std::uint64_t position) noexcept {
    slots_[position & mask_].turn.store(position + mask_ + 1, std::memory_order_release);
  }

  // Whether the step published at `position` found half of the queue taken: asked once a half, so
  // that a producer learns it without a line that the consumer writes all the time.
  bool crowded(std::uint64_t position) const noexcept {
    std::uint64_t half = (mask_ + 1) / 2;
    if ((position & (half - 1)) != half - 1) return false;
    std::uint64_t ahead = position + half;
    return slots_[ahead & mask_].turn.load(std::memory_order_relaxed) < ahead;
  }

  // For steps that were taken and could be kept nowhere.
  void count_dropped(std::uint64_t steps) noexcept {
    header_->dropped.fetch_add(steps, std::memory_order_relaxed);
  }

  std::uint64_t head() const noexcept { return header_->head.load(std::memory_order_acquire); }
  std::uint64_t dropped() const noexcept {
    return header_->dropped.load(std::memory_order_relaxed);
  }
  std::uint64_t capacity() const noexcept { return mask_ + 1; }

 private:
  StepQueue() = default;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  int lock_ = -1;
  QueueHeader* header_ = nullptr;
  QueueSlot* slots_ = nullptr;
  std::uint64_t mask_ = 0;
};

// What a queue that nobody holds any more still has: steps that were published and not freed, in
// order. `malformed` where the file is no queue.
struct LeftInQueue {
  struct Entry {
    std::uint64_t position;
    LoggedStep step;
  };
  std::vector<Entry> entries;
  std::uint64_t dropped = 0;
};
Result<LeftInQueue> read_queue(const std::string& path);

// Holds the queue of a dead process, so that of several that come to recover it one does. Empty
// while its process lives, while another recovers it, and where there is no such file.
class DeadQueue {
 public:
  explicit DeadQueue(const std::string& path);
  ~DeadQueue();
  DeadQueue(const DeadQueue&) = delete;
  DeadQueue& operator=(const DeadQueue&) = delete;
  bool held() const { return file_ >= 0; }

 private:
  int file_ = -1;
};

}  // namespace mfu
