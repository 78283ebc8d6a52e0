// How others count the same step: each convention by name, with its source, so that a published
// utilization can be read in its own terms. Stands on workload.h.
//
//   auto palm = mfu::flop_by_convention(model, work, mfu::Convention::palm, {});
//   palm->model_flop;  // empty where the convention does not define such a model: see ->note
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/workload.h"

namespace mfu {

enum class Convention : std::uint8_t {
  exact,
  palm,
  megatron,
  maxtext,
  torchtitan,
  llmc,
  verl,
  llamafactory,
  levanter,
  open_instruct,
  trl,
  flopcounter,
  flopcounter_fused,
  six_n,
};
inline constexpr std::size_t kConventionCount = 14;

struct ConventionRow {
  Convention convention;
  std::string_view name;    // "open-instruct"
  std::string_view source;  // where its formula stands
  std::string_view why;     // one line: what it counts otherwise than `exact`
};
const ConventionRow& describe(Convention convention);
std::vector<Convention> all_conventions();
// `not_found` with near names.
Result<Convention> parse_convention(std::string_view name);

struct ConventionOptions {
  // The published parameter count, where the shape does not fix it: conventions written in N take
  // it for N.
  std::optional<std::uint64_t> parameters = {};
  // Only `exact` and the flopcounter ones know frozen weights and adapters; others bill all.
  const TrainingPlan* plan = nullptr;
};

struct ConventionCount {
  std::optional<FlopCount> model_flop;
  std::optional<FlopCount> hardware_flop;
  std::string note;  // why there is none, or what was left out
};
// Fails only where flop_per_step() would.
Result<ConventionCount> flop_by_convention(const ModelSpec& model, const Workload& work,
                                           Convention convention, const ConventionOptions& options);

}  // namespace mfu
