// How a run ended.
#pragma once

#include "mfu/run.h"

namespace mfu {

// Fills `ended`, and says what was lost.
void add_ending(const RunRecord& record, RunReport& report);
// It failed before it computed anything: advice about steps would be beside the point.
bool failed_early(const RunRecord& record, const RunReport& report);

}  // namespace mfu
