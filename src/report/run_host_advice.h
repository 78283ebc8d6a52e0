// What to change where the main thread's time goes elsewhere.
#pragma once

#include <chrono>

#include "mfu/run.h"

namespace mfu {

// Adds to `findings`, best first. `step_time`: of the steps the shares are of, over all ranks.
void add_host_findings(RunReport& report, std::chrono::nanoseconds step_time);

}  // namespace mfu
