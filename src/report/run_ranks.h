// Finds which processes are the same rank, started again, and which ranks are missing.
#pragma once

#include <vector>

#include "mfu/record.h"
#include "mfu/run.h"

namespace mfu {

// Indices of processes, grouped by rank and sorted by time. A process that began after another one
// of the same rank had ended is its restart. Two that ran at the same time are two ranks.
std::vector<std::vector<std::size_t>> rank_chains(
    const std::vector<const ProcessRecord*>& processes);

// Fills `ranks_expected`, `restarts` and `attempt`, and notes which ranks and launchers are
// missing.
void add_ranks(const RunRecord& record, RunReport& report);

}  // namespace mfu
