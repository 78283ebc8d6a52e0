// Closes descriptors in forked children. A child must not keep its parent's locks, ports and
// connections: they must end with the process that opened them. Also keeps our files away from the
// standard descriptors, and starts threads that take no signals, so that the program's own threads
// get them.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <utility>

namespace mfu {

// NOLINTNEXTLINE(readability-identifier-naming): global, and says so
inline std::atomic<unsigned> g_forks = 0;

// A number that grows by one in every forked child, once watch_forks() has been called.
inline unsigned forks() noexcept {
  return g_forks.load(std::memory_order_relaxed);
}
void watch_forks();

// From now on `descriptor` is closed in children, until forget_descriptor(). At most 1024 can be
// watched; a further one stays open.
void close_in_children(int descriptor);
void forget_descriptor(int descriptor);

// Where standard input, output or error is closed, the next file that is opened gets its number,
// and what the program prints goes into that file. This opens /dev/null there, in the way in which
// the program's reads and writes fail as before. Programs that are started do not get it.
void hold_standard_descriptors();

// The same for one descriptor: returns it, or a copy beyond the standard ones in its place. -1 and
// errno if there is none.
int beyond_standard(int descriptor);

// Starts a thread that takes no signals.
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
