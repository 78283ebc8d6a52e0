// What to change first.
#pragma once

#include <vector>

#include "mfu/run.h"

namespace mfu {

// Ranked as a trace's findings are. `tf32_possible`: fp32 matmuls ran on a device whose TF32 unit
// was not allowed. `step_time`: of all ranks, warm-up left out.
std::vector<Finding> findings_of_run(const RunReport& report, bool tf32_possible,
                                     std::chrono::nanoseconds step_time);

}  // namespace mfu
