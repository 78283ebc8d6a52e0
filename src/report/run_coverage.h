// Whether a run's FLOPs are all there are: libraries that compute past the dispatcher, and trained
// matrices whose products nobody counted.
#pragma once

#include "mfu/run.h"

namespace mfu {

// Fills `libraries`, `complete` and what processes found to contradict their counts. Called last,
// once uncounted operators and all other contradictions are known.
void add_coverage(const RunRecord& record, RunReport& report);

}  // namespace mfu
