// Where the training loop's thread spends its time: computing, blocked (host_wait.h says in what),
// or ready to run while other processes hold the cores. At the end of each step it reads how long
// the thread computed. If the step took longer, it also reads the scheduler's account of the
// thread, from a file that stays open. Other threads are looked at only in steps of several
// milliseconds.
#pragma once

#include <array>
#include <cstdint>

namespace mfu::observer {

// The calling thread is the training loop's.
void watch_host() noexcept;
// The loop begins to wait for its next batch.
void begin_loading() noexcept;
void end_loading() noexcept;
// Called when it begins to write a checkpoint.
void begin_saving() noexcept;
void end_saving() noexcept;
// Gives the recorder what the step came to. `on_device`: the program computes on a device other
// than the processor, so a blocked thread is most likely waiting for it.
struct StepHost {
  std::uint64_t step_ns = 0, communication_ns = 0;
  bool on_device = false;
};
void book_host(const StepHost& step) noexcept;
void forget_host() noexcept;  // in a forked child

// What the process used since it began. Take differences.
struct HostUse {
  std::uint64_t wall_ns = 0, cpu_ns = 0;  // of all its threads
  // time of the loop in its loader, and its own CPU time there
  std::uint64_t loading_ns = 0, loading_cpu_ns = 0;
  // The processes that it started, such as loader workers: their number, and how long they had a
  // core or waited for one, all together and the busiest one.
  std::uint64_t children = 0, children_ready_ns = 0, busiest_child_ns = 0;
  // how long the loop's thread waited for a core, and how long it had one
  std::uint64_t waited_ns = 0, loop_cpu_ns = 0;
  struct Child {
    long pid = 0;
    std::uint64_t ready_ns = 0;
  };
  std::array<Child, 64> first_children{};
  HostUse operator-(const HostUse& before) const;  // `children` is how many there are now
};
HostUse host_use() noexcept;
// Only the loader's part, which costs nothing to read.
HostUse loading_use() noexcept;

}  // namespace mfu::observer
