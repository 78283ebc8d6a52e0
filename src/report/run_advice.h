// Decides what to change first.
#pragma once

#include <vector>

#include "mfu/run.h"

namespace mfu {

// Findings of the run, ranked like those of a trace. `tf32_possible`: fp32 matmuls ran on a device
// that has a TF32 unit, and the program did not allow it.
std::vector<Finding> findings_of_run(const RunRecord& record, const RunQuestion& question,
                                     const RunReport& report, bool tf32_possible);

}  // namespace mfu
