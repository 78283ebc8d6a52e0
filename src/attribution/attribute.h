// attribute() of mfu/attribution.h, over traces that are held apart.
#pragma once

#include <span>

#include "mfu/attribution.h"
#include "trace/trace.h"

namespace mfu {

Result<Attribution> attribute(std::span<const Trace> traces, const AttributionOptions& options);

}  // namespace mfu
