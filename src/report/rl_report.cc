// One step of reinforcement learning, pass by pass.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "mfu/report.h"
#include "report/rl_report.h"

namespace mfu {

namespace {

constexpr std::array<std::string_view, 7> kRoles = {"actor",  "old",    "reference", "reward",
                                                    "values", "critic", "learner"};

// The actor generates; the critic and the learner are updated; the others only look.
FlopCount one_pass(RlRole role, const ReinforcementNeed& once) {
  if (role == RlRole::actor) return once.generate;
  return role == RlRole::critic || role == RlRole::learner ? once.update : once.forward;
}

}  // namespace

std::string_view name_of(RlRole role) {
  return kRoles[static_cast<std::size_t>(role)];
}

Result<RlRole> parse_rl_role(std::string_view name) {
  const auto* at = std::find(kRoles.begin(), kRoles.end(), name);
  if (at != kRoles.end()) return static_cast<RlRole>(at - kRoles.begin());
  return fail(ErrorCode::invalid_argument,
              fmt::format("no pass '{}' of reinforcement learning: one of {}", name,
                          fmt::join(kRoles, ", ")));
}

Result<RlReport> report_rl(const ModelSpec& model, const RlQuestion& question,
                           const TrainingPlan& plan) {
  ReinforcementStep step{
      .sequences = question.sequences, .prompt = question.prompt, .response = question.response};
  ReinforcementNeed once = MFU_TRY(flop_per_reinforcement_step(model, step, plan));
  RlReport report{question.sequences, question.prompt, question.response, {}, {}};
  for (std::size_t i = 0; i < kRoles.size(); ++i) {
    RlRole role = static_cast<RlRole>(i);
    auto times =
        static_cast<std::uint64_t>(std::count(question.roles.begin(), question.roles.end(), role));
    if (times == 0) continue;
    report.passes.push_back({role, times, one_pass(role, once) * times});
    report.total += report.passes.back().flop;
  }
  return report;
}

}  // namespace mfu
