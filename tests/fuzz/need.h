// What every fuzz target of a model reader does with a model it got: everything, and nothing may
// break.
#pragma once

#include "mfu/convention.h"

inline void ask_everything(const mfu::ModelSpec& model) {
  mfu::count_parameters(model);
  (void)mfu::plan_training(model, {.lora_rank = 4});
  for (mfu::Phase phase : {mfu::Phase::train, mfu::Phase::prefill, mfu::Phase::decode}) {
    mfu::Workload work{.phase = phase, .batch = 2, .sequence = 64, .context = 16};
    (void)mfu::flop_per_step(model, work);
    (void)mfu::bytes_per_step(model, work);
    for (mfu::Convention convention : mfu::all_conventions()) {
      (void)mfu::flop_by_convention(model, work, convention, {});
    }
  }
}
