// The part of a NeedReport that speaks of reinforcement learning.
#pragma once

#include "mfu/report.h"

namespace mfu {

Result<RlReport> report_rl(const ModelSpec& model, const RlQuestion& question,
                           const TrainingPlan& plan);

}  // namespace mfu
