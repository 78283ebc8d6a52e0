// Where the training loop's thread spends its time: computing, ready to run while other processes
// hold the cores, blocked. Read at the end of each step: two clocks and one file that is kept open,
// about 1 µs; other threads are looked at only in steps of several milliseconds.
#pragma once

#include <cstdint>

namespace mfu::observer {

// The calling thread is the one.
void watch_host() noexcept;
// While the loop waits for its next batch.
void begin_loading() noexcept;
void end_loading() noexcept;
// What the step came to, into the recorder. `on_device`: the program runs on another device than
// the processor, so that what blocks is most likely waiting for it.
struct StepHost {
  std::uint64_t step_ns = 0, communication_ns = 0, checkpoint_ns = 0;
  bool on_device = false;
};
void book_host(const StepHost& step) noexcept;
void forget_host() noexcept;  // in a forked child

}  // namespace mfu::observer
