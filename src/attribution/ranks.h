// Collectives matched across ranks, as the ledger needs them: how long each rank waited in one for
// the last to arrive.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "attribution/part.h"

namespace mfu {

struct RankWaits {
  std::uint64_t matched = 0;            // collectives that two ranks or more took part in
  std::vector<std::int64_t> waited_ns;  // by rank: those of the first trace, of the second …
  std::vector<std::int64_t> blamed_ns;  // by rank: what others waited where it came last
  // By trace and event: the first so many ns of it were spent waiting; none: not matched.
  std::vector<std::vector<std::optional<std::int64_t>>> waits;
  std::vector<std::string> notes;
};

RankWaits waits_of(std::span<const TraceOutline* const> traces);

}  // namespace mfu
