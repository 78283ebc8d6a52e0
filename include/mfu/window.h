// Windows of profiled steps that a run left behind: where each trace is, and what the observer
// counted in the very same steps. Written by the observed process (docs/formats/window.md).
//
//   for (const mfu::ProfiledWindow& each : mfu::read_windows("mfu-runs/gpt2")) each.trace;
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mfu/record.h"

namespace mfu {

struct ProfiledWindow {
  std::string trace;  // path of the trace, in the run directory
  std::optional<std::int64_t> rank;
  std::uint64_t pid = 0, number = 1;  // of the process's windows
  std::uint64_t wanted_steps = 0, steps = 0, first_step = 0;
  bool on_device = false;  // it computed on another device than the processor
  std::uint64_t cores_available = 0, threads = 0;
  std::chrono::nanoseconds wall{}, cpu{};             // the process, all its threads
  std::chrono::nanoseconds waited{};                  // the loop's thread, for a core
  std::chrono::nanoseconds loading{}, loading_cpu{};  // the loop in its loader, and its own work
  std::uint64_t children = 0;                         // processes it had started: loader workers
  std::chrono::nanoseconds children_cpu{};
  std::vector<OperatorTotal> operators;  // with `reason`: those that were not counted
  std::string problem;                   // why there is no trace; empty: there is one

  CountedFlop flop() const;
};

// By rank, then by number. A file that is not whole is passed over.
std::vector<ProfiledWindow> read_windows(const std::string& directory);

}  // namespace mfu
