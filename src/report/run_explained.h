// Adds the explained steps to a run's report.
#pragma once

#include "mfu/run.h"

namespace mfu {

// Notes which steps were profiled, and that they are part of no rate.
void add_profiled(const RunRecord& record, RunReport& report);

}  // namespace mfu
