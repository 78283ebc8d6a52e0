// Collectives matched across ranks: how long each rank waited in them for the last to arrive.
#pragma once

#include <span>
#include <vector>

#include "attribution/work.h"
#include "mfu/attribution.h"

namespace mfu {

struct RankWork {
  const Trace* trace = nullptr;
  std::int64_t device = 0;
  bool cpu = false;
  Works works;
};

struct Matching {
  std::uint64_t matched = 0;            // collectives that two ranks or more took part in
  std::vector<std::int64_t> waited_ns;  // by rank
  std::vector<std::int64_t> blamed_ns;  // by rank: what others waited where it came last
};

// Fills works.waits and the `call` of communication spans.
Matching match_collectives(std::span<RankWork> ranks);

}  // namespace mfu
