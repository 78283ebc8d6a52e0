// Implements attribute() of mfu/attribution.h, for traces in memory and for parts that were kept of
// them.
#pragma once

#include <functional>
#include <span>

#include "attribution/part.h"
#include "mfu/attribution.h"
#include "trace/trace.h"

namespace mfu {

Result<Attribution> attribute(std::span<const Trace> traces, const AttributionOptions& options);

// Returns the ranks of one trace. It is called once per trace, in order, so only one trace needs to
// be in memory.
using RanksOf = std::function<Result<std::vector<RankPart>>(std::size_t trace)>;
Result<Attribution> attribute(std::span<const TraceOutline* const> traces, const RanksOf& ranks_of,
                              const AttributionOptions& options);

}  // namespace mfu
