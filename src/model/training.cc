// Finds by name which weights are trained and which have adapters. This is done once for a model.
#include <fmt/format.h>

#include <algorithm>

#include "base/suggest.h"
#include "mfu/workload.h"
#include "model/parameters.h"

namespace mfu {
namespace {

// '*' matches any run of characters and '?' any one character. The time is linear in the text for
// each star, also for hostile patterns.
bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string_view without_suffix(std::string_view pattern) {
  for (std::string_view suffix : {".weight", ".bias"}) {
    if (pattern.size() > suffix.size() && pattern.ends_with(suffix)) {
      pattern.remove_suffix(suffix.size());
    }
  }
  return pattern;
}

bool freezes(std::string_view pattern, std::string_view name, Part part) {
  pattern = without_suffix(pattern);
  if (pattern == name_of(part) || glob_matches(pattern, name)) return true;
  return name.size() > pattern.size() && name[pattern.size()] == '.' && name.starts_with(pattern);
}

std::string_view last_name(std::string_view name) {
  std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::string weight_name(const Stage& stage, std::uint64_t index, const Component& component) {
  if (!stage.repeated) return stage.prefix + component.name;
  return fmt::format("{}{}.{}", stage.prefix, index, component.name);
}

// The name of the table with which a tied head shares its matrix.
std::string embedding_name(const ModelSpec& model) {
  for (const Stage& stage : model.stages) {
    for (const LayerKind& kind : stage.kinds) {
      for (const Component& component : kind.components) {
        if (component.part == Part::embedding) return weight_name(stage, 0, component);
      }
    }
  }
  return "";
}

struct Planner {
  const ModelSpec& model;
  const TrainingOptions& options;
  TrainingPlan plan;
  std::vector<bool> frozen_used, target_used;

  bool adapts(const Stage& stage, const Component& component);
  std::uint64_t trained_bits(const Stage& stage, const LayerKind& kind, std::uint64_t index);
  std::uint64_t adapted_bits(const Stage& stage, const LayerKind& kind);
  void count(const LayerKind& kind, const LayerPlan& layer);
  void plan_stage(const Stage& stage);
};

bool Planner::adapts(const Stage& stage, const Component& component) {
  if (!std::holds_alternative<Projection>(component.work) || component.without_gradient) {
    return false;
  }
  const auto& targets = options.lora_targets;
  bool every = targets.empty() || (targets.size() == 1 && targets[0].starts_with("all"));
  // Like all-linear in PEFT: the projections of the layers, but not the head or the router.
  if (every) {
    return stage.repeated && stage.stream != Stream::vision && component.part != Part::router;
  }
  bool found = false;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (last_name(component.name) != targets[i] && component.name != targets[i]) continue;
    found = target_used[i] = true;
  }
  return found;
}

std::uint64_t Planner::adapted_bits(const Stage& stage, const LayerKind& kind) {
  std::uint64_t bits = 0;
  if (options.lora_rank == 0 || stage.mtp) return bits;
  for (std::size_t i = 0; i < kind.components.size(); ++i) {
    if (adapts(stage, kind.components[i])) bits |= 1ull << i;
  }
  return bits;
}

std::uint64_t Planner::trained_bits(const Stage& stage, const LayerKind& kind,
                                    std::uint64_t index) {
  if (options.lora_rank != 0) return 0;
  std::uint64_t bits = ~0ull;
  if (options.frozen.empty()) return bits;
  for (std::size_t i = 0; i < kind.components.size(); ++i) {
    const auto* work = std::get_if<Projection>(&kind.components[i].work);
    bool tied = work != nullptr && !work->stored && !stage.repeated;
    std::string name = tied ? embedding_name(model) : weight_name(stage, index, kind.components[i]);
    for (std::size_t p = 0; p < options.frozen.size(); ++p) {
      if (!freezes(options.frozen[p], name, kind.components[i].part)) continue;
      bits &= ~(1ull << i);
      frozen_used[p] = true;
    }
  }
  return bits;
}

void Planner::count(const LayerKind& kind, const LayerPlan& layer) {
  for (std::size_t i = 0; i < kind.components.size(); ++i) {
    const Component& component = kind.components[i];
    if (layer.trained >> i & 1) plan.parameters_trained += parameters_of(component) * layer.count;
    if (layer.adapted >> i & 1) {
      const auto& work = std::get<Projection>(component.work);
      if (!work.stored) continue;  // the adapter belongs to the layer that stores the weights
      std::uint64_t adapter = work.copies * plan.lora_rank * (work.in + work.out) * layer.count;
      plan.parameters_adapter += adapter;
      plan.parameters_trained += adapter;
    }
  }
}

void Planner::plan_stage(const Stage& stage) {
  std::vector<LayerPlan> layers;
  std::vector<std::uint64_t> adapted_of_kind;
  for (const LayerKind& kind : stage.kinds) adapted_of_kind.push_back(adapted_bits(stage, kind));
  std::uint64_t index = 0;
  for (const LayerRun& run : stage.order) {
    const LayerKind& kind = stage.kinds[run.kind];
    std::uint64_t adapted = adapted_of_kind[run.kind];
    // Without patterns, all layers of the run are treated alike.
    std::uint64_t step = options.frozen.empty() || !stage.repeated ? run.count : 1;
    for (std::uint64_t done = 0; done < run.count; done += step) {
      LayerPlan layer{run.kind, step, trained_bits(stage, kind, index + done), adapted};
      bool same = !layers.empty() && layers.back().kind == layer.kind &&
                  layers.back().trained == layer.trained;
      if (same) {
        layers.back().count += step;
      } else {
        layers.push_back(layer);
      }
      if (!stage.mtp) count(kind, layer);
    }
    index += run.count;
  }
  plan.stages.push_back(std::move(layers));
}

std::vector<std::string> weight_names(const ModelSpec& model) {
  std::vector<std::string> names;
  for (const Stage& stage : model.stages) {
    for (const LayerKind& kind : stage.kinds) {
      for (const Component& component : kind.components) {
        names.push_back(weight_name(stage, 0, component));
        names.emplace_back(last_name(component.name));
      }
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Failure unmatched(const ModelSpec& model, std::string_view what, const std::string& pattern) {
  std::vector<std::string> near = closest(pattern, weight_names(model), 3);
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} \"{}\" fits no weight of {}{}{}", what, pattern, model.type,
                          near.empty() ? "" : "; near: ", fmt::join(near, ", ")));
}

}  // namespace

Result<TrainingPlan> plan_training(const ModelSpec& model, const TrainingOptions& options) {
  if (options.lora_rank > 1u << 20) {
    return fail(ErrorCode::invalid_argument, "LoRA rank beyond 2^20: give a small one");
  }
  for (const Stage& stage : model.stages) {
    for (const LayerKind& kind : stage.kinds) {
      // what is trained is marked by the bits of a word
      if (kind.components.size() <= 64) continue;
      return fail(ErrorCode::unsupported,
                  fmt::format("{}: a layer has {} parts, but training can be set for 64 at most",
                              stage.prefix, kind.components.size()));
    }
  }
  Planner planner{model, options, {}, {}, {}};
  planner.plan.lora_rank = options.lora_rank;
  planner.frozen_used.assign(options.frozen.size(), false);
  planner.target_used.assign(options.lora_targets.size(), false);
  for (const Stage& stage : model.stages) planner.plan_stage(stage);
  for (std::size_t i = 0; i < options.frozen.size(); ++i) {
    if (options.lora_rank == 0 && !planner.frozen_used[i]) {
      return unmatched(model, "frozen pattern", options.frozen[i]);
    }
  }
  bool named = options.lora_rank != 0 && !options.lora_targets.empty() &&
               !options.lora_targets[0].starts_with("all");
  for (std::size_t i = 0; named && i < options.lora_targets.size(); ++i) {
    if (!planner.target_used[i]) return unmatched(model, "LoRA target", options.lora_targets[i]);
  }
  return planner.plan;
}

}  // namespace mfu
