// Time in which no pass ran: a server that waits for requests, a program between two rollouts. A
// thread of its own looks a few times a second whether any thread counted, so that an operator pays
// nothing for it. It runs only in programs that generate or evaluate: training has its steps.
//
// Only where the processor computes. Another device runs behind the host, and a host that waits for
// it looks idle.
#pragma once

#include <cstdint>

namespace mfu::observer {

// Begins to look, once a process.
void watch_idle() noexcept;
// Nanoseconds so far. A pass that was open meanwhile did not take them.
std::uint64_t idle_ns() noexcept;
void forget_idle() noexcept;  // in a forked child

}  // namespace mfu::observer
