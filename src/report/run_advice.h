// What to change first.
#pragma once

#include <vector>

#include "mfu/run.h"

namespace mfu {

// Best first, by the MFU that would be reached if all of it went away. `tf32_possible`: fp32
// matmuls ran on a device whose TF32 unit was not allowed.
std::vector<Suggestion> suggestions_for(const RunReport& report, bool tf32_possible);

}  // namespace mfu
