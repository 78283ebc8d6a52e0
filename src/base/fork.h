// What a forked child must not keep of its parent: a lock, a port, a connection. Their descriptors
// are closed in every child, so that they end with the process that opened them. And threads that
// leave the program's signals to the program.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <utility>

namespace mfu {

// NOLINTNEXTLINE(readability-identifier-naming): global, and says so
inline std::atomic<unsigned> g_forks = 0;

// Grows in every forked child, from the first call of watch_forks() on.
inline unsigned forks() noexcept {
  return g_forks.load(std::memory_order_relaxed);
}
void watch_forks();

// `descriptor` is closed in children from now on, until forget_descriptor(). It is left open there
// where more than 1024 are watched.
void close_in_children(int descriptor);
void forget_descriptor(int descriptor);

// A thread that takes no signal: they are for the program's own threads.
template <typename Function>
std::thread quiet_thread(Function function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread made(std::move(function));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made;
}

}  // namespace mfu
