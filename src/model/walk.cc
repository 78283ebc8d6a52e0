#include "model/walk.h"

#include <algorithm>

namespace mfu {
namespace {

bool bit(std::uint64_t bits, std::size_t index) {
  return (bits >> (index & 63)) & 1;
}

// Wires that need a gradient after a layer of this kind, given those before it.
std::uint8_t wires_after(const LayerKind& kind, const LayerPlan& plan, std::uint8_t wires) {
  for (std::size_t i = 0; i < kind.components.size(); ++i) {
    const Component& component = kind.components[i];
    if (component.without_gradient) continue;
    bool trained = bit(plan.trained | plan.adapted, i) &&
                   !std::holds_alternative<Attention>(component.work) &&
                   !std::holds_alternative<Recurrence>(component.work);
    if (trained || (component.reads & wires) != 0) wires |= component.writes;
  }
  return wires;
}

struct Walk {
  const ResolvedWork& load;
  const WalkOptions& options;
  FlopNeed need;
  FlopCount recomputed;
  std::uint8_t wires[3] = {0, 0, 0};  // by Stream

  bool train() const { return load.phase == Phase::train; }
  void add_layers(const Stage& stage, const LayerPlan& plan, std::uint64_t count);
  void add_component(const Stage& stage, const LayerPlan& plan, std::size_t index,
                     std::uint64_t count);
  void walk_stage(const Stage& stage, const std::vector<LayerPlan>* plan);
};

void Walk::add_component(const Stage& stage, const LayerPlan& plan, std::size_t index,
                         std::uint64_t count) {
  const Component& component = stage.kinds[plan.kind].components[index];
  if (std::holds_alternative<Weights>(component.work)) return;
  std::uint8_t live = wires[static_cast<std::size_t>(stage.stream)];
  Part part = stage.mtp ? Part::mtp : component.part;
  FlopCount forward = forward_flop(component, load, options.counting);
  FlopCount total = forward;
  if (train()) {
    total += backward_flop(component, load, options.counting, {live, bit(plan.trained, index)});
  }
  need.by_part[part] += total * count;
  if (bit(plan.adapted, index)) {
    const auto& projection = std::get<Projection>(component.work);
    AdapterFlop adapter = adapter_flop(projection, load, options.counting, options.plan->lora_rank,
                                       (component.reads & live) != 0);
    forward += adapter.forward;
    FlopCount both = train() ? adapter.forward + adapter.backward : adapter.forward;
    need.by_part[Part::adapter] += both * count;
  }
  bool again =
      options.recompute == Recompute::full || (options.recompute == Recompute::selective &&
                                               std::holds_alternative<Attention>(component.work));
  if (train() && stage.repeated && again) recomputed += forward * count;
}

void Walk::add_layers(const Stage& stage, const LayerPlan& plan, std::uint64_t count) {
  std::uint8_t& live = wires[static_cast<std::size_t>(stage.stream)];
  const LayerKind& kind = stage.kinds[plan.kind];
  FlopCount recomputed_before = recomputed;
  for (std::size_t i = 0; i < kind.components.size(); ++i) {
    add_component(stage, plan, i, count);
    const Component& component = kind.components[i];
    bool computes = std::holds_alternative<Attention>(component.work) ||
                    std::holds_alternative<Recurrence>(component.work);
    bool trained = bit(plan.trained | plan.adapted, i) && !computes;
    if (!component.without_gradient && (trained || (component.reads & live) != 0)) {
      live |= component.writes;
    }
  }
  // If no gradient passes through a layer, it has no backward pass and nothing is recomputed.
  if (live == 0) recomputed = recomputed_before;
}

void Walk::walk_stage(const Stage& stage, const std::vector<LayerPlan>* plan) {
  std::uint8_t& live = wires[static_cast<std::size_t>(stage.stream)];
  std::size_t runs = plan != nullptr ? plan->size() : stage.order.size();
  // Identical layers with identical inputs cost the same, so they are counted once and multiplied.
  std::vector<LayerPlan> waiting;
  auto add_waiting = [&] {
    for (const LayerPlan& run : waiting) add_layers(stage, run, run.count);
    waiting.clear();
  };
  for (std::size_t i = 0; i < runs; ++i) {
    LayerPlan run = plan != nullptr
                        ? (*plan)[i]
                        : LayerPlan{stage.order[i].kind, stage.order[i].count, ~0ull, 0};
    auto same = [&](const LayerPlan& other) {
      return other.kind == run.kind && other.trained == run.trained && other.adapted == run.adapted;
    };
    auto at = std::find_if(waiting.begin(), waiting.end(), same);
    if (at != waiting.end()) {
      at->count += run.count;
      continue;
    }
    // Wires are only ever added, so after a few layers they no longer change.
    while (run.count != 0 && train() && wires_after(stage.kinds[run.kind], run, live) != live) {
      add_waiting();
      add_layers(stage, run, 1);
      --run.count;
    }
    if (run.count != 0) waiting.push_back(run);
  }
  add_waiting();
}

}  // namespace

FlopNeed walk_model(const ModelSpec& model, const ResolvedWork& load, const WalkOptions& options) {
  Walk walk{.load = load, .options = options, .need = {}, .recomputed = {}};
  for (std::size_t i = 0; i < model.stages.size(); ++i) {
    const Stage& stage = model.stages[i];
    if (!runs_in(stage, load, options.mtp)) continue;
    walk.walk_stage(stage, options.plan != nullptr ? &options.plan->stages[i] : nullptr);
    constexpr auto kText = static_cast<std::size_t>(Stream::text);
    if (walk.wires[static_cast<std::size_t>(Stream::vision)] & wire::stream) {
      walk.wires[kText] |= wire::stream;
    }
    if (walk.wires[static_cast<std::size_t>(Stream::encoder)] & wire::stream) {
      walk.wires[kText] |= wire::encoded;
    }
  }
  for (FlopCount part : walk.need.by_part.values) walk.need.model_flop += part;
  walk.need.hardware_flop = walk.need.model_flop + walk.recomputed;
  walk.need.tokens =
      model.vision_only ? load.needed[static_cast<std::size_t>(Rows::tower)] : load.sums.tokens;
  return walk.need;
}

}  // namespace mfu
