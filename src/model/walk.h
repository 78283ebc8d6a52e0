// The walk over a model's layers that every FLOP count is: each component once, with the wires that
// carry a gradient where it stands.
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
