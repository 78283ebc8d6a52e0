#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/suggest.h"
#include "mfu/workload.h"
#include "model/walk.h"

namespace mfu {
namespace {

constexpr std::array<std::string_view, 4> kPhaseNames = {"train", "forward", "prefill", "decode"};
constexpr std::array<std::string_view, 3> kRecomputeNames = {"none", "selective", "full"};

Result<std::size_t> named(std::string_view name, std::span<const std::string_view> names,
                          std::string_view what) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  return fail(ErrorCode::invalid_argument,
              fmt::format("no {} \"{}\": one of {}", what, name, fmt::join(names, ", ")));
}

bool needs_each_length(const ModelSpec& model) {
  for (const Stage& stage : model.stages) {
    for (const LayerKind& kind : stage.kinds) {
      for (const Component& component : kind.components) {
        const auto* attention = std::get_if<Attention>(&component.work);
        if (attention == nullptr || attention->rows != Rows::tokens) continue;
        MaskKind mask = attention->mask.kind;
        if (mask != MaskKind::causal && mask != MaskKind::bidirectional &&
            mask != MaskKind::cross) {
          return true;
        }
      }
    }
  }
  return false;
}

Result<FlopNeed> count_needed(const ModelSpec& model, const Workload& work,
                              const TrainingPlan* plan) {
  ResolvedWork load = MFU_TRY(resolve_work(model, work));
  FlopNeed need = walk_model(
      model, load,
      {.counting = Counting::needed, .plan = plan, .recompute = work.recompute, .mtp = work.mtp});
  need.notes = std::move(load.notes);
  if (!model.vision_only && !model.encoder_only) {
    need.image_tokens = load.needed[static_cast<std::size_t>(Rows::merged)];
  }
  if (load.only_sums && needs_each_length(model)) {
    need.notes.push_back({"mean_length_taken", {}});
  }
  return need;
}

}  // namespace

std::string_view name_of(Phase phase) {
  return kPhaseNames[static_cast<std::size_t>(phase)];
}

Result<Phase> parse_phase(std::string_view name) {
  return static_cast<Phase>(MFU_TRY(named(name, kPhaseNames, "phase")));
}

Result<Recompute> parse_recompute(std::string_view name) {
  return static_cast<Recompute>(MFU_TRY(named(name, kRecomputeNames, "recompute policy")));
}

Result<FlopNeed> flop_per_step(const ModelSpec& model, const Workload& work) {
  return count_needed(model, work, nullptr);
}

Result<FlopNeed> flop_per_step(const ModelSpec& model, const Workload& work,
                               const TrainingPlan& plan) {
  return count_needed(model, work, &plan);
}

Result<ReinforcementNeed> flop_per_reinforcement_step(const ModelSpec& model,
                                                      const ReinforcementStep& step) {
  TrainingPlan everything = MFU_TRY(plan_training(model, {}));
  return flop_per_reinforcement_step(model, step, everything);
}

Result<ReinforcementNeed> flop_per_reinforcement_step(const ModelSpec& model,
                                                      const ReinforcementStep& step,
                                                      const TrainingPlan& plan) {
  if (step.prompt == 0 || step.response == 0) {
    return fail(
        ErrorCode::invalid_argument,
        "a step of reinforcement learning needs a prompt and a response of 1 token or more");
  }
  std::uint64_t all = step.prompt + step.response;
  auto flop = [&](Phase phase, std::uint64_t sequence, std::uint64_t context) -> Result<FlopCount> {
    Workload work{
        .phase = phase, .batch = step.sequences, .sequence = sequence, .context = context};
    return MFU_TRY(flop_per_step(model, work, plan)).model_flop;
  };
  FlopCount prefill = MFU_TRY(flop(Phase::prefill, step.prompt, 0));
  // Decoding token by token needs the same as one decode of all tokens, because the masks add up to
  // the same.
  FlopCount decode = MFU_TRY(flop(Phase::decode, step.response, step.prompt));
  FlopCount forward = MFU_TRY(flop(Phase::forward, all, 0));
  FlopCount update = MFU_TRY(flop(Phase::train, all, 0));
  ReinforcementNeed need;
  need.generate = (prefill + decode) * step.generations;
  need.forward = forward * step.forwards;
  need.update = update * step.updates;
  need.total = need.generate + need.forward + need.update;
  return need;
}

}  // namespace mfu
