// Says what to change if the main thread spends its time outside torch.
#pragma once

#include <chrono>

#include "mfu/record.h"
#include "mfu/run.h"

namespace mfu {

// Adds to `findings`, best first. `step_time` is the time of the steps that the shares refer to,
// summed over all ranks.
void add_host_findings(const RunRecord& record, std::chrono::nanoseconds step_time,
                       RunReport& report);

}  // namespace mfu
