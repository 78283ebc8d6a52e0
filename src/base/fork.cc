#include "base/fork.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

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

void hold_standard_descriptors() {
  for (int each = STDIN_FILENO; each <= STDERR_FILENO; ++each) {
    if (::fcntl(each, F_GETFD) >= 0) continue;
    int mode = each == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    int opened = ::open("/dev/null", mode | O_CLOEXEC);
    if (opened >= 0 && opened != each) ::close(opened);  // another thread was faster
  }
}

int beyond_standard(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int error = errno;
  ::close(descriptor);
  errno = error;
  return moved;
}

}  // namespace mfu
