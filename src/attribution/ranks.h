// Collectives matched across ranks, as the ledger needs them: how long each rank waited in one for
// the last to arrive.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "attribution/attribute.h"
#include "attribution/work.h"

namespace mfu {

struct RankWork {
  const Trace* trace = nullptr;
  std::uint32_t trace_number = 0;
  std::int64_t device = 0;
  bool cpu = false;
  Works works;
};

struct RankWaits {
  std::uint64_t matched = 0;            // collectives that two ranks or more took part in
  std::vector<std::int64_t> waited_ns;  // by rank
  std::vector<std::int64_t> blamed_ns;  // by rank: what others waited where it came last
  std::vector<std::string> notes;
};

// Fills works.waits and the `call` of communication spans.
RankWaits set_waits(std::span<const Trace> traces, std::span<RankWork> ranks);

}  // namespace mfu
