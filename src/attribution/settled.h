// How long operators of a CPU take if nothing holds them up, and how much of that is overhead.
#pragma once

#include <cstdint>
#include <vector>

#include "attribution/part.h"
#include "mfu/attribution.h"

namespace mfu {

// If a thread loses its core in the middle of an operator, that call takes milliseconds. This says
// nothing about the operator, so it is taken out: a call that took far longer than usual, for the
// same operator and arguments, counts with the usual time. Rules compare settled times. What a
// cause could win is its settled time, stretched by as much as all work was.
struct Settled {
  std::vector<std::int64_t> own_ns;      // by span: its time in the window without nested spans
  std::vector<std::int64_t> held_up_ns;  // by span: what was taken out
  std::int64_t overhead_ns = 0;          // the most that one call costs in addition to its work
  double stretch = 1;                    // by how much other processes slowed all work down
};

// The share of its peak that a large matmul reaches on today's devices. More is not promised.
inline constexpr double kReachable = 0.8;

// `counted` may be null. Then nothing is known about the scheduler.
Settled settled_of(const Trace& trace, const Works& works, const RankPart& part,
                   const ProfiledWindow* counted);

}  // namespace mfu
