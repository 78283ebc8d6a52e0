// The observer's own count of the steps a trace shows, in place of what operators' shapes say.
#pragma once

#include "attribution/peaks.h"
#include "mfu/attribution.h"

namespace mfu {

// The window of that trace; null: nobody counted it.
const ProfiledWindow* counted_window(const AttributionOptions& options, const std::string& path);

// FLOPs and MFU become the observer's. Matmul time without known FLOPs, and generated kernels that
// hold matmuls, take what no operator with shapes accounts for: only what the observer could not
// count either stays unknown. The ledger keeps its sum.
void use_counted(const ProfiledWindow& counted, const RankPart& part, Peaks& peaks,
                 RankAttribution& rank);

}  // namespace mfu
