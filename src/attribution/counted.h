// Uses the observer's own count of the profiled steps instead of what the operators' shapes say.
#pragma once

#include "attribution/peaks.h"
#include "mfu/attribution.h"

namespace mfu {

// The observer's window of that trace; null if nobody counted it.
const ProfiledWindow* counted_window(const AttributionOptions& options, const std::string& path);

// Replaces FLOPs and MFU by the observer's. FLOPs that no operator with shapes accounts for go to
// matmul time without known FLOPs, and to generated kernels that hold matmuls. Only what the
// observer could not count either stays unknown. The sum of the ledger does not change.
void use_counted(const ProfiledWindow& counted, const RankPart& part, Peaks& peaks,
                 RankAttribution& rank);

}  // namespace mfu
