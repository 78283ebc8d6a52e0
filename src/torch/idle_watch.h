// Finds time in which no pass ran: a server waits for requests, or a program pauses between two
// rollouts. A separate thread checks several times a second whether any thread counted, so
// operators pay nothing for it. It runs only in programs that generate or evaluate, because
// training has its steps.
//
// A device that runs behind the host is asked whether it is done with the streams of the passes. A
// device that cannot be asked is taken to be busy.
#pragma once

#include <cstdint>

namespace mfu::observer {

// Starts the thread, once per process.
void watch_idle() noexcept;
// Idle nanoseconds so far. They do not count for a pass that was open meanwhile.
std::uint64_t idle_ns() noexcept;
void forget_idle() noexcept;  // in a forked child

}  // namespace mfu::observer
