// Who used the device: operators, kernels, how much of it is linked, and unions of intervals.
#pragma once

#include "attribution/part.h"
#include "attribution/window.h"
#include "attribution/work.h"

namespace mfu {

Intervals intervals_of(const Trace& trace, const Works& works, const Window& window, bool cpu);
// Sets WorkCall::inside: the share of each call's kernels that lies in the window.
void set_inside(const Window& window, Works& works);
// Without the values that need a peak.
std::vector<PartOperator> operators_of(const Trace& trace, const Works& works);
std::vector<KernelLine> kernels_of(const Trace& trace, const Works& works, const Window& window,
                                   bool cpu);
AttributionCoverage coverage_of(const Trace& trace, const Works& works, const Window& window,
                                bool cpu);
// What each stream did. Spans are joined until a picture can show them.
std::vector<PartLane> timeline_of(const Trace& trace, const Works& works, const Window& window,
                                  bool cpu);

}  // namespace mfu
