// What the training loop's thread is blocked in, looked at from a thread beside it: a timer, a file
// or something else. How long it is blocked the scheduler says exactly (host_time.cc); this says
// for what. While the thread computes it is looked at 12 times a second, while it is blocked 200
// times.
#pragma once

#include <cstdint>

namespace mfu::observer {

// Nanoseconds since the watch began, by samples.
struct Blocked {
  std::uint64_t sleep_ns = 0;
  std::uint64_t file_ns = 0;   // also a page that is not in memory
  std::uint64_t other_ns = 0;  // a lock, a pipe, a socket, another process
};

void watch_blocked(long thread) noexcept;
Blocked blocked() noexcept;
// What the thread does has a name already: nobody needs to look until `look_again`. In pairs, also
// one inside the other.
void look_away() noexcept;
void look_again() noexcept;
void forget_blocked() noexcept;  // in a forked child

}  // namespace mfu::observer
