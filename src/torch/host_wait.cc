#include "torch/host_wait.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "torch/count.h"

namespace mfu::observer {
namespace {

constexpr std::uint64_t kShortestNs = 5'000'000, kLongestNs = 80'000'000;
constexpr int kComputes = 8;  // after so many looks in a row at a busy thread, looks become rarer

constinit std::atomic<int> call_file{-1};  // the thread's /proc/…/syscall, kept open
constinit std::atomic<bool> is_watched{false};
constinit std::atomic<int> away_count{0};  // loading and saving may be nested
constinit std::atomic<std::uint64_t> slept_ns{0}, in_file_ns{0}, elsewhere_ns{0};

enum class Wait : std::uint8_t { none, sleep, file, other };

bool is_file(unsigned long descriptor) {
  struct stat about{};
  if (fstat(static_cast<int>(descriptor), &about) != 0) return false;
  return S_ISREG(about.st_mode) || S_ISDIR(about.st_mode) || S_ISBLK(about.st_mode);
}

// Calls that take a path, or that only files support.
constexpr long kFileCalls[] = {
    SYS_fsync,    SYS_fdatasync, SYS_sync,      SYS_syncfs,   SYS_sync_file_range,
    SYS_openat,   SYS_unlinkat,  SYS_renameat2, SYS_mkdirat,  SYS_newfstatat,
    SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_msync,    SYS_getdents64,
    SYS_statx,    SYS_readahead, SYS_fadvise64, SYS_sendfile, SYS_copy_file_range,
#ifdef SYS_open
    SYS_open,     SYS_stat,      SYS_lstat,     SYS_unlink,   SYS_rename,
#endif
};
// Calls whose first argument may be a file, a pipe or a socket.
constexpr long kDescriptorCalls[] = {SYS_read,    SYS_pread64, SYS_readv,    SYS_preadv,
                                     SYS_preadv2, SYS_write,   SYS_pwrite64, SYS_writev,
                                     SYS_pwritev, SYS_pwritev2};

bool is_among(const auto& calls, long call) {
  return std::find(std::begin(calls), std::end(calls), call) != std::end(calls);
}

Wait wait_of(long call, const unsigned long* arguments) {
  if (call == SYS_nanosleep || call == SYS_clock_nanosleep) return Wait::sleep;
  bool nobody = arguments[0] == 0;  // it waits for no descriptor, so for a timer
#ifdef SYS_select
  if (call == SYS_select) return nobody ? Wait::sleep : Wait::other;
#endif
  if (call == SYS_pselect6) return nobody ? Wait::sleep : Wait::other;
  if (call == -1 || is_among(kFileCalls, call)) return Wait::file;  // -1: in a page fault
  if (is_among(kDescriptorCalls, call) && is_file(arguments[0])) return Wait::file;
  return Wait::other;
}

// The text is "running", or the number of the call, its arguments and two addresses.
Wait look_once() {
  char text[256];
  ssize_t size = pread(call_file.load(std::memory_order_relaxed), text, sizeof text - 1, 0);
  if (size <= 0 || text[0] == 'r') return Wait::none;
  text[size] = 0;
  char* end = nullptr;
  long call = std::strtol(text, &end, 10);
  unsigned long arguments[2] = {};
  for (unsigned long& each : arguments) each = std::strtoul(end, &end, 16);
  return wait_of(call, arguments);
}

std::atomic<std::uint64_t>& sum_of(Wait wait) {
  if (wait == Wait::sleep) return slept_ns;
  return wait == Wait::file ? in_file_ns : elsewhere_ns;
}

void* look_often(void*) {
  std::uint64_t pause_ns = kShortestNs, before = now_ns();
  int computes = 0;
  for (;;) {
    timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(pause_ns)};
    nanosleep(&pause, nullptr);
    Wait wait = away_count.load(std::memory_order_relaxed) > 0 ? Wait::none : look_once();
    std::uint64_t now = now_ns();
    if (wait == Wait::none) {
      if (++computes > kComputes) pause_ns = std::min(2 * pause_ns, kLongestNs);
    } else {
      sum_of(wait).fetch_add(now - before, std::memory_order_relaxed);
      computes = 0;
      pause_ns = kShortestNs;
    }
    before = now;
  }
  return nullptr;
}

}  // namespace

void watch_blocked(long thread) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%ld/syscall", thread);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  int before = call_file.exchange(file);
  if (is_watched.exchange(true)) {
    close(before);
    return;
  }
  // This thread must not take the program's signals.
  sigset_t all, given;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &given) != 0) return;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t watcher;
  if (pthread_create(&watcher, &attributes, look_often, nullptr) == 0) {
    pthread_setname_np(watcher, "mfu-wait");
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &given, nullptr);
}

Blocked blocked() noexcept {
  return {slept_ns.load(std::memory_order_relaxed), in_file_ns.load(std::memory_order_relaxed),
          elsewhere_ns.load(std::memory_order_relaxed)};
}

void look_away() noexcept {
  away_count.fetch_add(1, std::memory_order_relaxed);
}

void look_again() noexcept {
  away_count.fetch_sub(1, std::memory_order_relaxed);
}

void forget_blocked() noexcept {
  if (int file = call_file.exchange(-1); file >= 0) close(file);
  is_watched.store(false);
  away_count.store(0);
  slept_ns.store(0);
  in_file_ns.store(0);
  elsewhere_ns.store(0);
}

}  // namespace mfu::observer
