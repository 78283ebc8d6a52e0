// What each fuzz target of a model reader does with the model it gets: it asks for everything, and
// nothing may break. Each input takes the next phase and the next convention.
#pragma once

#include "mfu/workload.h"

inline void ask_everything(const mfu::ModelSpec& model, std::size_t turn) {
  mfu::count_parameters(model);
  (void)mfu::plan_training(model, {.lora_rank = 4});
  auto phase = static_cast<mfu::Phase>(turn % 4);
  mfu::Workload work{.phase = phase, .batch = 2, .sequence = 64, .context = 16};
  (void)mfu::flop_per_step(model, work);
  (void)mfu::bytes_per_step(model, work);
  auto conventions = mfu::all_conventions();
  (void)mfu::flop_by_convention(model, work, conventions[turn / 4 % conventions.size()], {});
}
