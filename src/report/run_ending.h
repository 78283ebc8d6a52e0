// Says how a run ended.
#pragma once

#include "mfu/run.h"

namespace mfu {

// Fills `ended` and notes what was lost.
void add_ending(const RunRecord& record, RunReport& report);
// True if the program failed before it computed anything. Advice about steps would not help then.
bool failed_early(const RunRecord& record, const RunReport& report);

}  // namespace mfu
