// Finds what blocks the training loop's thread: a timer, a file or something else. The scheduler
// tells exactly how long it is blocked (host_time.cc). For the reason, another thread samples it:
// 12 times a second while it computes, 200 times a second while it is blocked.
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
// Pauses the samples until `look_again`, because what the thread does is known. The two calls come
// in pairs, which may be nested.
void look_away() noexcept;
void look_again() noexcept;
void forget_blocked() noexcept;  // in a forked child

}  // namespace mfu::observer
