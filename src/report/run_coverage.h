// Decides whether all FLOPs of a run were counted. Libraries may compute past the dispatcher, and
// trained matrices may have products that nobody counted.
#pragma once

#include "mfu/run.h"

namespace mfu {

// Fills `libraries`, `complete` and what processes found to contradict their counts. Called last,
// once uncounted operators and all other contradictions are known.
void add_coverage(const RunRecord& record, RunReport& report);

}  // namespace mfu
