// CUDA graphs. What runs during a capture is computed only when the graph is replayed. During a
// capture, calls of the capturing thread and of backward passes go to a list. The Python glue keeps
// the list with the graph and counts it at each replay.
#pragma once

#include <cstdint>
#include <vector>

#include "torch/count.h"
#include "torch/thread.h"

namespace mfu::observer {

// Calls of one operator, type and device in a captured graph.
struct Captured {
  std::uint32_t operator_id = 0, type_id = 0;
  std::uint64_t calls = 0, hardware_flop = 0, model_flop = 0;
  std::int64_t leading = 0;
  std::int64_t device = -1;
};

// `host_too`: work on the CPU is part of the graph as well. (A stand-in captures that.)
void begin_capture(Thread& thread, bool host_too) noexcept;
std::vector<Captured> end_capture(Thread& thread) noexcept;

// Whether a call of this thread is now part of a capture. Marks the thread.
bool join_capture(Thread& thread) noexcept;
// False if the capture is over or does not include this call.
bool add_captured(Thread& thread, const Call& call, std::uint64_t calls) noexcept;

void forget_capture() noexcept;  // in a forked child

}  // namespace mfu::observer
