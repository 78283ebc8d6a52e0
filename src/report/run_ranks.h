// Ranks of a run: which processes are one rank, started again, and which are missing.
#pragma once

#include <vector>

#include "mfu/record.h"
#include "mfu/run.h"

namespace mfu {

// Indices of processes, those of one rank together in order of time: a process that began after
// another of the same rank was gone is its restart. Two at the same time are two ranks.
std::vector<std::vector<std::size_t>> rank_chains(
    const std::vector<const ProcessRecord*>& processes);

// `ranks_expected`, `restarts`, `attempt`, and notes of ranks and launchers that are missing.
void add_ranks(const RunRecord& record, RunReport& report);

}  // namespace mfu
