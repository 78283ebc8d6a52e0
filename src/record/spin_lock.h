// A lock for work that takes well under a microsecond, so that a thread that counts never sleeps in
// the kernel.
#pragma once

#include <sched.h>

#include <atomic>

namespace mfu {

class SpinLock {
 public:
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  // The work takes well under a microsecond, but the kernel may stop the holder in the middle of
  // it.
  void lock() {
    while (!try_lock()) sched_yield();
  }
  bool lock_within(int tries) {
    for (int i = 0; i < tries; ++i) {
      if (try_lock()) return true;
      sched_yield();
    }
    return false;
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_ = false;
};

class Guard {
 public:
  explicit Guard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~Guard() { lock_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace mfu
