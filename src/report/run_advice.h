// What to change first.
#pragma once

#include <vector>

#include "mfu/run.h"

namespace mfu {

// Ranked as a trace's findings are. `tf32_possible`: fp32 matmuls ran on a device whose TF32 unit
// was not allowed.
std::vector<Finding> findings_of_run(const RunRecord& record, const RunQuestion& question,
                                     const RunReport& report, bool tf32_possible);

}  // namespace mfu
