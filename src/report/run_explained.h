// What explained steps add to a run's report.
#pragma once

#include "mfu/run.h"

namespace mfu {

// Which steps were profiled, and that no rate is made of them.
void add_profiled(const RunRecord& record, RunReport& report);

}  // namespace mfu
