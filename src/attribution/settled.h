// What operators of a CPU take when nothing holds them up, and how much of that is overhead.
#pragma once

#include <cstdint>
#include <vector>

#include "attribution/part.h"
#include "mfu/attribution.h"

namespace mfu {

// A thread that loses its core in the middle of an operator makes that one call take milliseconds.
// That says nothing of the operator, so it is taken out: a call that took far longer than calls of
// the same operator with the same arguments usually do counts with the usual time. Rules compare
// settled times; what a cause could win is then its settled time, stretched as all work was.
struct Settled {
  std::vector<std::int64_t> own_ns;  // by span: its time in the window, less the spans inside it
  std::vector<std::int64_t> held_up_ns;  // by span: what was taken out of it
  std::int64_t overhead_ns = 0;          // the most that one call costs beside its work
  double stretch = 1;                    // by how much other processes slowed all work down
};

// Of its peak, what a large matmul reaches on today's devices; more is not promised.
inline constexpr double kReachable = 0.8;

// `counted` may be null: what the scheduler did is not known then.
Settled settled_of(const Trace& trace, const Works& works, const RankPart& part,
                   const ProfiledWindow* counted);

}  // namespace mfu
