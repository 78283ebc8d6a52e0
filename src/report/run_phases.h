// What the passes of a run were for, and what its main threads did.
#pragma once

#include <vector>

#include "mfu/run.h"

namespace mfu {

// The kept steps of one process.
struct KeptSteps {
  const ProcessRecord* process = nullptr;
  std::vector<const Step*> steps;
};

// Fills `phases`, `tokens_by_kind`, `host` and `host_idle`. The sums of the phases are the run's to
// the digit: what no pass holds (one under way when it was read) is `other`. Asks the report for
// its types' peaks.
void add_phases(const RunRecord& record, const std::vector<KeptSteps>& kept, RunReport& report);

}  // namespace mfu
