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

// What the process used since it began, for differences.
struct HostUse {
  std::uint64_t wall_ns = 0, cpu_ns = 0;             // of all its threads
  std::uint64_t loading_ns = 0, loading_cpu_ns = 0;  // the loop in its loader; its own CPU time
  std::uint64_t children_cpu_ns = 0, children = 0;   // of the processes it started: workers
  std::uint64_t waited_ns = 0;                       // the loop's thread, for a core
  HostUse operator-(const HostUse& before) const;    // `children` are those that are there now
};
HostUse host_use() noexcept;
// The loader's part alone, which costs nothing to read.
HostUse loading_use() noexcept;

}  // namespace mfu::observer
