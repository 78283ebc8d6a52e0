// A bounded queue of logged steps, with many producers and one consumer. If it has a path, it is a
// file in memory that outlives the process, so that the steps of a killed process can still be
// read.
// A producer never waits: if the queue is full, the step is dropped and counted. The algorithm is
// D. Vyukov's bounded queue, in which each slot carries its turn.
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

// One slot. `turn` is its position while it is free, and position + 1 while it holds a step.
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
  // Makes the queue in a new file `path`, or in private memory if the path is empty. All pages are
  // allocated before this returns, so no later store can fail. The file is locked while its process
  // lives. The lock tells others that it lives; process numbers would not, across containers.
  static Result<StepQueue> create(const std::string& path, std::size_t capacity);
  StepQueue(StepQueue&& other) noexcept;
  StepQueue& operator=(StepQueue&& other) noexcept;
  ~StepQueue();

  // A slot whose step is to be filled, or null if the queue is full. publish() hands it over to the
  // consumer.
  QueueSlot* claim(std::uint64_t& position) noexcept {
    std::uint64_t at = header_->head.load(std::memory_order_relaxed);
    while (true) {
      QueueSlot& slot = slots_[at & mask_];
      std::uint64_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn == at) {
        if (header_->head.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
          position = at;
          return &slot;
        }
      } else if (turn < at) {
        header_->dropped.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
      } else {
        at = header_->head.load(std::memory_order_relaxed);
      }
    }
  }
  static void publish(QueueSlot& slot, std::uint64_t position) noexcept {
    slot.turn.store(position + 1, std::memory_order_release);
  }

  // For the consumer: the step at a position, or null if it is not published yet. It stays valid
  // until it is freed.
  const LoggedStep* at(std::uint64_t position) const noexcept {
    const QueueSlot& slot = slots_[position & mask_];
    return slot.turn.load(std::memory_order_acquire) == position + 1 ? &slot.step : nullptr;
  }
  void free(std::uint64_t position) noexcept {
    slots_[position & mask_].turn.store(position + mask_ + 1, std::memory_order_release);
  }

  // Whether half of the queue was full when the step at `position` was published. It answers only
  // once per half queue, so that producers need not read a cache line that the consumer keeps
  // writing.
  bool crowded(std::uint64_t position) const noexcept {
    std::uint64_t half = (mask_ + 1) / 2;
    if ((position & (half - 1)) != half - 1) return false;
    std::uint64_t ahead = position + half;
    return slots_[ahead & mask_].turn.load(std::memory_order_relaxed) < ahead;
  }

  // Counts steps that were taken from the queue but could not be stored anywhere.
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

// What is left in the queue of a process that has ended: steps that were published but not freed,
// in order. Fails with `malformed` if the file is not a queue.
struct LeftInQueue {
  struct Entry {
    std::uint64_t position;
    LoggedStep step;
  };
  std::vector<Entry> entries;
  std::uint64_t dropped = 0;
};
Result<LeftInQueue> read_queue(const std::string& path);

// Locks the queue of a dead process, so that only one process recovers it. Empty if its process
// lives, if another one is recovering it, or if there is no such file.
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
