// Which part of the trace is accounted for, and where its steps begin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attribution/work.h"
#include "mfu/attribution.h"
#include "trace/trace.h"

namespace mfu {

struct WindowPlan {
  Window window;
  std::vector<StepLedger> steps;   // back to back, filling the window; empty: none marked in it
  std::vector<std::string> notes;  // codes of notes that have no values
};

// `invalid_argument` where the window holds no time.
Result<WindowPlan> plan_window(const Trace& trace, const Works& works, const WindowQuestion& asked,
                               bool cpu);

// The marked step the host was in at that time.
std::optional<std::size_t> step_at(const Trace& trace, std::int64_t ns);

}  // namespace mfu
