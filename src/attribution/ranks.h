// Collectives matched across ranks, as the ledger needs them: how long each rank waited in one
// until the last rank arrived.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "attribution/part.h"

namespace mfu {

struct RankWaits {
  std::uint64_t matched = 0;            // collectives with at least two ranks
  std::vector<std::int64_t> waited_ns;  // by rank: those of the first trace, then of the second, …
  std::vector<std::int64_t> blamed_ns;  // by rank: how long others waited because it came last
  // By trace and event: how many ns at its start were spent waiting. Empty if it was not matched.
  std::vector<std::vector<std::optional<std::int64_t>>> waits;
  std::vector<Note> notes;
};

RankWaits waits_of(std::span<const TraceOutline* const> traces);

}  // namespace mfu
