// Writes what a window of profiled steps leaves in the run directory: the trace as torch writes it,
// and what the observer counted in the same steps (docs/formats/window.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/recorder.h"
#include "torch/host_time.h"
#include "torch/profile.h"

namespace mfu::observer {

struct WindowFacts {
  std::uint64_t number = 0;  // which window of the process it is, from 1
  std::int32_t rank = -1;
  bool device = false;  // it computes on a device other than the processor
  std::uint64_t wanted_steps = 0, steps = 0, first_step = 0;
  std::uint64_t start_ns = 0, end_ns = 0;
  HostUse use;
  std::vector<Recorder::Total> operators;  // counts of these steps
};

// The difference by operator, type and reason.
std::vector<Recorder::Total> difference(const std::vector<Recorder::Total>& now,
                                        const std::vector<Recorder::Total>& before);

// Writes both files, the trace first. Each is complete or not there. Returns an empty text or an
// error.
std::string write_window_files(const WriteTrace& write, const std::string& directory,
                               const WindowFacts& facts);

}  // namespace mfu::observer
