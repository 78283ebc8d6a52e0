// Stores a model from memory and reads it back, for models without a config.json and for plans of
// what is trained. Only processes of the same version may exchange it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mfu/workload.h"

namespace mfu {

struct KeptModel {
  ModelSpec model;
  std::optional<TrainingPlan> training{};
};

std::string keep_model(const KeptModel& kept);
// Fails with `malformed` if keep_model() of this version did not write it. A checksum shows that.
Result<KeptModel> read_kept_model(std::string_view text, std::string_view name);

}  // namespace mfu
