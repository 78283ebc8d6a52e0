// Whether a part that was read fits together: indices in range, times that can be, and time that
// adds up to the window.
#pragma once

#include <cstdint>
#include <vector>

#include "attribution/part.h"

namespace mfu {

bool fits(const TraceOutline& outline);
bool fits(const RankPart& part, const TraceOutline& outline);

// Of each call, Σ of its spans. Spans of other calls are passed over.
std::vector<std::uint64_t> span_lengths(const RankPart& part);

}  // namespace mfu
