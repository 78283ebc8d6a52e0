// What every fuzz target of a model reader does with a model it got: everything, and nothing may
// break. The conventions, by far the slowest, take turns: one phase an input.
#pragma once

#include "mfu/convention.h"

inline void ask_everything(const mfu::ModelSpec& model, std::size_t turn) {
  mfu::count_parameters(model);
  (void)mfu::plan_training(model, {.lora_rank = 4});
  for (mfu::Phase phase :
       {mfu::Phase::train, mfu::Phase::forward, mfu::Phase::prefill, mfu::Phase::decode}) {
    mfu::Workload work{.phase = phase, .batch = 2, .sequence = 64, .context = 16};
    (void)mfu::flop_per_step(model, work);
    (void)mfu::bytes_per_step(model, work);
    if (static_cast<std::size_t>(phase) != turn % 4) continue;
    for (mfu::Convention convention : mfu::all_conventions()) {
      (void)mfu::flop_by_convention(model, work, convention, {});
    }
  }
}
