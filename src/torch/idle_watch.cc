#include "torch/idle_watch.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>

#include "torch/device_time.h"
#include "torch/devices.h"
#include "torch/pass_table.h"

namespace mfu::observer {
namespace {

constexpr std::uint64_t kIdleNs = 100'000'000;  // shorter pauses belong to the pass before
constexpr long kLookEveryNs = 20'000'000;

constinit std::atomic<std::uint64_t> idle_total_ns{0};
constinit std::atomic<bool> watched{false};

constexpr std::size_t kStreams = 16;

struct Queue {
  std::int16_t device = -1;
  std::int64_t stream = 0;
};

struct Progress {
  std::uint64_t calls = 0;
  bool busy = false;  // inside an operator or a compiler
  std::array<Queue, kStreams> queues{};
  std::size_t queue_count = 0;
};

Progress progress() {
  Progress now;
  Lock lock;
  for (const Thread* each : passes().threads) {
    now.calls += each->calls;
    now.busy = now.busy || each->quiet != 0;
    if (!is_asynchronous(each->device)) continue;
    // A process with more threads than that is taken to be computing.
    now.busy = now.busy || now.queue_count == kStreams;
    if (!now.busy) now.queues[now.queue_count++] = {each->device, each->stream};
  }
  return now;
}

bool devices_done(const Progress& now) {
  return std::all_of(now.queues.begin(), now.queues.begin() + now.queue_count,
                     [](const Queue& each) { return is_done(each.device, each.stream); });
}

void* look(void*) {
  Progress before;
  std::uint64_t active_ns = now_ns();  // when something was last seen, or booked as idle
  bool idle = false;
  for (;;) {
    timespec pause{.tv_sec = 0, .tv_nsec = kLookEveryNs};
    nanosleep(&pause, nullptr);
    Progress now = progress();
    std::uint64_t time = now_ns();
    bool counts = (mode.load(std::memory_order_relaxed) & kCounting) != 0;
    if (now.busy || now.calls != before.calls || !counts || !devices_done(now)) {
      before = now;
      active_ns = time;
      idle = false;
      continue;
    }
    if (!idle && time - active_ns <= kIdleNs) continue;
    bool begins = !idle;
    idle = true;
    idle_total_ns.fetch_add(time - active_ns, std::memory_order_relaxed);
    Recorder::process().add_pass_time(PassPhase::other, kIdleModel, time - active_ns);
    active_ns = time;
    if (begins) book_resting(false);
  }
  return nullptr;
}

}  // namespace

void watch_idle() noexcept {
  if (watched.exchange(true)) return;
  // This thread must not receive the program's signals.
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, look, nullptr) == 0) {
    pthread_setname_np(thread, "mfu-idle");
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

std::uint64_t idle_ns() noexcept {
  return idle_total_ns.load(std::memory_order_relaxed);
}

void forget_idle() noexcept {
  watched.store(false);
  idle_total_ns.store(0);
}

}  // namespace mfu::observer
