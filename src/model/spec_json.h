// A model as it stands in memory, kept and read back: for models that came from no config.json, and
// for what of one is trained. Between processes of one version; no interchange format.
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
// `malformed` for anything else than what keep_model() of this version wrote: it carries a sum.
Result<KeptModel> read_kept_model(std::string_view text, std::string_view name);

}  // namespace mfu
