// Checks whether a part that was read fits together: indices are in range, times are possible, and
// they add up to the window.
#pragma once

#include <cstdint>
#include <vector>

#include "attribution/part.h"

namespace mfu {

bool fits(const TraceOutline& outline);
bool fits(const RankPart& part, const TraceOutline& outline);

// The summed length of the spans of each call. Spans of other calls are skipped.
std::vector<std::uint64_t> span_lengths(const RankPart& part);

}  // namespace mfu
