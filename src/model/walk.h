// The walk over a model's layers behind every FLOP count. It visits each component once and knows
// which values need a gradient there.
#pragma once

#include "model/cost.h"

namespace mfu {

struct WalkOptions {
  Counting counting = Counting::needed;
  const TrainingPlan* plan = nullptr;  // null: everything is trained
  Recompute recompute = Recompute::none;
  bool mtp = false;
};
FlopNeed walk_model(const ModelSpec& model, const ResolvedWork& load, const WalkOptions& options);

}  // namespace mfu
