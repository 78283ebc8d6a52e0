#include "model/parameters.h"

#include <fmt/format.h>

namespace mfu {
namespace {

constexpr std::array<std::string_view, kPartCount> kPartNames = {"embedding",
                                                                 "position_embedding",
                                                                 "attention_projections",
                                                                 "attention_scores",
                                                                 "mlp",
                                                                 "experts",
                                                                 "shared_experts",
                                                                 "router",
                                                                 "router_bias",
                                                                 "indexer",
                                                                 "ssm",
                                                                 "norm",
                                                                 "lm_head",
                                                                 "head",
                                                                 "vision",
                                                                 "audio",
                                                                 "modulation",
                                                                 "adapter",
                                                                 "mtp",
                                                                 "convolution"};

FlopCount wide_parameters(const Component& component) {
  if (const auto* weights = std::get_if<Weights>(&component.work)) return weights->count;
  if (const auto* work = std::get_if<Projection>(&component.work)) {
    if (!work->stored) return 0;
    return FlopCount(work->copies) * work->out * (FlopCount(work->in) + (work->bias ? 1 : 0));
  }
  if (const auto* work = std::get_if<Convolution>(&component.work)) {
    return FlopCount(work->channels) * (work->kernel + (work->bias ? 1 : 0));
  }
  return 0;
}

}  // namespace

std::string_view name_of(Part part) {
  return kPartNames[static_cast<std::size_t>(part)];
}

bool is_embedding(Part part) {
  return part == Part::embedding || part == Part::position_embedding;
}

std::uint64_t parameters_of(const Component& component) {
  return wide_parameters(component).low();
}

std::uint64_t active_parameters_of(const Component& component) {
  const auto* work = std::get_if<Projection>(&component.work);
  std::uint64_t stored = parameters_of(component);
  return work != nullptr && work->copies > 1 ? stored / work->copies * work->active : stored;
}

namespace {

// Says why a component is impossible for any class. Empty if it is possible.
std::string impossible(const Component& component) {
  if (const auto* attention = std::get_if<Attention>(&component.work)) {
    bool shares = attention->kv_heads != 0 && attention->heads % attention->kv_heads == 0;
    if (shares) return "";
    return fmt::format("{} query heads cannot share {} key and value heads: they do not divide",
                       attention->heads, attention->kv_heads);
  }
  const auto* work = std::get_if<Projection>(&component.work);
  // A single copy that no token uses is a weight that is stored but not used (DiT's class norm).
  if (work == nullptr || work->copies <= 1) return "";
  if (work->active >= 1 && work->active <= work->copies) return "";
  return fmt::format("a token visits {} of {} experts: give 1 to {}", work->active, work->copies,
                     work->copies);
}

}  // namespace

Result<void> check_parameters(const ModelSpec& model, std::string_view file) {
  FlopCount total;
  for (const Stage& stage : model.stages) {
    std::vector<std::uint64_t> layers(stage.kinds.size());
    for (const LayerRun& run : stage.order) layers[run.kind] += run.count;
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      if (layers[kind] == 0) continue;
      FlopCount layer;
      for (const Component& component : stage.kinds[kind].components) {
        layer += wide_parameters(component);
        std::string problem = impossible(component);
        if (problem.empty()) continue;
        return fail(ErrorCode::malformed,
                    fmt::format("{}: {}{}: {}", file, stage.prefix, component.name, problem));
      }
      total += layer * layers[kind];
    }
  }
  if (total < FlopCount(1ull << 62)) return {};
  return fail(ErrorCode::malformed,
              fmt::format("{}: its sizes make more than 4.6e18 parameters: check hidden_size, "
                          "intermediate_size, vocab_size and the numbers of layers and experts",
                          file));
}

ParameterCount count_parameters(const ModelSpec& model) {
  ParameterCount count;
  for (const Stage& stage : model.stages) {
    std::vector<std::uint64_t> layers(stage.kinds.size());
    for (const LayerRun& run : stage.order) layers[run.kind] += run.count;
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      for (const Component& component : stage.kinds[kind].components) {
        std::uint64_t stored = parameters_of(component) * layers[kind];
        count.by_part[stage.mtp ? Part::mtp : component.part] += stored;
        if (stage.mtp) continue;
        count.total += stored;
        count.active += active_parameters_of(component) * layers[kind];
        if (is_embedding(component.part)) count.embedding += stored;
      }
    }
  }
  return count;
}

}  // namespace mfu
