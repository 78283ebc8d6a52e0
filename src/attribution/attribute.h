// attribute() of mfu/attribution.h, over traces that are held apart and over what was kept of them.
#pragma once

#include <functional>
#include <span>

#include "attribution/part.h"
#include "mfu/attribution.h"
#include "trace/trace.h"

namespace mfu {

Result<Attribution> attribute(std::span<const Trace> traces, const AttributionOptions& options);

// The ranks of one of the traces, asked for once, in order: none but its own need to be in memory.
using RanksOf = std::function<Result<std::vector<RankPart>>(std::size_t trace)>;
Result<Attribution> attribute(std::span<const TraceOutline* const> traces, const RanksOf& ranks_of,
                              const AttributionOptions& options);

}  // namespace mfu
