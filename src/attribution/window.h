// Chooses the part of the trace to explain, and where its steps begin.
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
  // they fill the window without gaps; empty if none is marked in it
  std::vector<StepLedger> steps;
  std::vector<std::string> notes;  // codes of notes that have no values
};

// Fails with `invalid_argument` if the window holds no time. `counted` may be null; otherwise it
// tells how many of the marked steps are whole.
Result<WindowPlan> plan_window(const Trace& trace, const Works& works, const WindowQuestion& asked,
                               bool cpu, const ProfiledWindow* counted);

// The marked step the host was in at that time.
std::optional<std::size_t> step_at(const Trace& trace, std::int64_t ns);

}  // namespace mfu
