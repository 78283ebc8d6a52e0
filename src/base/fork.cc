#include "base/fork.h"

#include <unistd.h>

namespace mfu {

namespace {

// Each holds a descriptor + 1; 0 marks a free place. These are atomics without a lock, because in a
// child nobody would release a lock that another thread of the parent held.
constexpr int kMostWatched = 1024;
std::atomic<int> g_watched[kMostWatched];  // NOLINT(readability-identifier-naming)

void in_child() {
  g_forks.fetch_add(1, std::memory_order_relaxed);
  for (std::atomic<int>& each : g_watched) {
    int watched = each.exchange(0, std::memory_order_relaxed);
    if (watched != 0) ::close(watched - 1);
  }
}

}  // namespace

void watch_forks() {
  static const int kWatched = ::pthread_atfork(nullptr, nullptr, &in_child);
  (void)kWatched;
}

void close_in_children(int descriptor) {
  watch_forks();
  for (std::atomic<int>& each : g_watched) {
    int free = 0;
    if (each.compare_exchange_strong(free, descriptor + 1)) return;
  }
}

void forget_descriptor(int descriptor) {
  for (std::atomic<int>& each : g_watched) {
    int watched = descriptor + 1;
    if (each.compare_exchange_strong(watched, 0)) return;
  }
}

}  // namespace mfu
