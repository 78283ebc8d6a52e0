// Says what to change if the main thread spends its time outside torch.
#pragma once

#include <chrono>

#include "mfu/run.h"

namespace mfu {

// Adds to `findings`, best first. `step_time` is the time of the steps that the shares refer to,
// summed over all ranks.
void add_host_findings(RunReport& report, std::chrono::nanoseconds step_time);

}  // namespace mfu
