// Windows: which part of a trace is accounted for, and those of profiled steps that a run left
// behind: where each trace is, and what the observer counted in the very same steps. These are
// written by the observed process (docs/formats/window.md).
//
//   for (const mfu::ProfiledWindow& each : mfu::read_windows("mfu-runs/gpt2")) each.trace;
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/record.h"

namespace mfu {

enum class WindowPolicy : std::uint8_t { all, steps, range };
std::string_view name_of(WindowPolicy policy);

struct WindowQuestion {
  // None: steps where the trace marks them, else all.
  std::optional<WindowPolicy> policy{};
  // Of `range`: on the trace's clock, or after the first device event; none: as far as it goes.
  std::optional<std::int64_t> from_ns{}, to_ns{};
  bool from_relative = false, to_relative = false;
  bool whole_steps = false;  // of a CPU: steps from mark to mark, also where nothing runs
};
// "all", "steps", "FROM:TO". A bare number is nanoseconds of the trace's clock, one with a unit
// (ns, us, ms, s) is after the first device event; either side may be empty.
Result<WindowQuestion> parse_window(std::string_view text);

struct Window {
  WindowPolicy policy = WindowPolicy::all;
  std::int64_t start_ns = 0, end_ns = 0;
  std::uint64_t steps = 0;
  std::int64_t duration_ns() const { return end_ns - start_ns; }
};

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
