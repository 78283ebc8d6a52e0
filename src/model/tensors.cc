#include "model/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/blocks.h"
#include "model/parameters.h"

namespace mfu {
namespace {

// Splits "model.layers.12.mlp.up_proj.weight" into "model.layers.", 12 and "mlp.up_proj.weight".
struct LayerName {
  std::string prefix, rest;
  std::uint64_t index = 0;
  bool layered = false;
};

std::optional<std::uint64_t> number_at(std::string_view text, std::size_t* end) {
  std::uint64_t number = 0;
  std::size_t i = 0;
  while (i < text.size() && text[i] >= '0' && text[i] <= '9' && i < 7) {
    number = number * 10 + static_cast<std::uint64_t>(text[i++] - '0');
  }
  *end = i;
  if (i == 0 || i == text.size() || text[i] != '.') return std::nullopt;
  return number;
}

LayerName split_name(const std::string& name) {
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    std::size_t end = 0;
    std::optional<std::uint64_t> index = number_at(std::string_view(name).substr(dot + 1), &end);
    if (!index) continue;
    return {name.substr(0, dot + 1), name.substr(dot + 1 + end + 1), *index, true};
  }
  return {"", name, 0, false};
}

bool holds(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [name](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

bool is_table(std::string_view name) {
  return holds(name, {"embed_tokens", "wte", "word_embeddings", "tok_embeddings", "token_embd",
                      "embed_in", "shared.weight", "embeddings.weight"});
}

bool is_head(std::string_view name) {
  return holds(name, {"lm_head", "embed_out"}) || name == "output.weight";
}

Part part_of(std::string_view name) {
  if (is_head(name)) return Part::lm_head;
  if (holds(name, {"vision", "visual", "patch_embed"})) return Part::vision;
  if (holds(name, {"expert", "_exps"})) return Part::experts;
  if (holds(name, {"router", "ffn_gate_inp", "mlp.gate.weight"})) return Part::router;
  if (holds(name, {"attn", "attention"})) return Part::attention_projections;
  if (holds(name, {"ssm", "mamba", "mixer", "conv1d", "linear_attn"})) return Part::ssm;
  return Part::mlp;
}

Component component_of(const std::string& name, const TensorInfo& tensor, const TensorFile& file) {
  Component component{
      .name = name, .part = Part::norm, .reads = wire::stream, .writes = wire::stream};
  component.work = Weights{tensor.elements};
  const auto& shape = tensor.shape;
  if (is_table(name) && shape.size() == 2) {
    component.part = Part::embedding;
  } else if (shape.size() == 2) {
    component.part = part_of(name);
    Rows rows = component.part == Part::lm_head ? Rows::logits : Rows::tokens;
    if (component.part != Part::vision) {
      component.work = Projection{.in = shape[1], .out = shape[0], .rows = rows};
    }
  } else if (shape.size() == 3 && part_of(name) == Part::experts) {
    component.part = Part::experts;
    std::uint64_t active = std::min(file.experts_active.value_or(1), shape[0]);
    component.work = Projection{
        .in = shape[2], .out = shape[1], .copies = shape[0], .active = active, .executed = active};
  } else if (shape.size() > 2) {
    component.part = part_of(name);
  }
  return component;
}

using Layer = std::map<std::string, const TensorInfo*>;

// Experts that are stored one by one become one component with so many copies.
LayerKind layer_kind(const Layer& layer, const TensorFile& file) {
  LayerKind kind;
  std::map<std::string, std::size_t> grouped;
  for (const auto& [name, tensor] : layer) {
    LayerName inner = split_name(name);
    if (inner.layered && inner.prefix.find("expert") != std::string::npos &&
        tensor->shape.size() == 2) {
      std::string common = inner.prefix + inner.rest;
      auto [at, fresh] = grouped.try_emplace(common, kind.components.size());
      if (!fresh) {
        auto& work = std::get<Projection>(kind.components[at->second].work);
        bool same = work.in == tensor->shape[1] && work.out == tensor->shape[0];
        if (same) ++work.copies;
        if (same)
          work.active = work.executed = std::min(file.experts_active.value_or(1), work.copies);
        if (same) continue;
      }
      Component component = component_of(common, *tensor, file);
      component.part = Part::experts;
      if (!std::holds_alternative<Projection>(component.work)) {
        component.work = Projection{.in = tensor->shape[1], .out = tensor->shape[0]};
      }
      kind.components.push_back(std::move(component));
      continue;
    }
    kind.components.push_back(component_of(name, *tensor, file));
  }
  return kind;
}

void add_scores(LayerKind& kind, const TensorFile& file) {
  if (!file.heads || !file.key_dim) return;
  bool attends =
      std::any_of(kind.components.begin(), kind.components.end(), [](const Component& component) {
        return holds(component.name, {"attn_q", "attn_qkv"}) &&
               std::holds_alternative<Projection>(component.work);
      });
  if (!attends) return;
  Component core{.name = "scores",
                 .part = Part::attention_scores,
                 .reads = wire::stream,
                 .writes = wire::stream};
  core.work = Attention{.mask = file.window ? Mask{MaskKind::window, *file.window} : Mask{},
                        .heads = *file.heads,
                        .kv_heads = file.kv_heads.value_or(*file.heads),
                        .qk_dim = *file.key_dim,
                        .v_dim = file.value_dim.value_or(*file.key_dim)};
  core.reads = wire::stream | wire::qkv;
  core.writes = wire::stream | wire::qkv;
  kind.components.push_back(std::move(core));
}

// A plan marks components by the bits of a word, so longer kinds are divided into several stages.
void push_stages(ModelSpec& model, const std::string& prefix, bool repeated, LayerKind kind,
                 std::uint64_t count) {
  constexpr std::size_t kMost = 60;
  for (std::size_t from = 0; from < kind.components.size(); from += kMost) {
    std::size_t to = std::min(from + kMost, kind.components.size());
    LayerKind part;
    for (std::size_t i = from; i < to; ++i) part.components.push_back(kind.components[i]);
    Stage stage = uniform_stage(prefix, Stream::text, std::move(part), count);
    stage.repeated = repeated;
    model.stages.push_back(std::move(stage));
  }
}

bool same_shapes(const Layer& a, const Layer& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second->shape == y.second->shape;
  });
}

void add_layers(ModelSpec& model, const std::string& prefix,
                const std::map<std::uint64_t, Layer>& layers, const TensorFile& file) {
  for (auto at = layers.begin(); at != layers.end();) {
    auto next = at;
    std::uint64_t count = 0;
    while (next != layers.end() && same_shapes(at->second, next->second)) {
      ++next;
      ++count;
    }
    LayerKind kind = layer_kind(at->second, file);
    add_scores(kind, file);
    push_stages(model, prefix, true, std::move(kind), count);
    at = next;
  }
}

void add_tied_head(ModelSpec& model, const std::vector<const TensorInfo*>& tables, bool has_head) {
  if (tables.empty()) return;
  model.vocab = tables.front()->shape[0];
  model.hidden = tables.front()->shape[1];
  if (has_head) return;
  model.tied = true;
  model.stages.push_back(head_stage({.hidden = model.hidden, .out = model.vocab, .tied = true}));
  model.stages.back().kinds[0].components[0].reads = wire::stream;
}

// Metadata may name more layers than this file has, if it is one of several files. It cannot name
// fewer.
Result<void> check_layers(const TensorFile& file, std::uint64_t found, std::vector<Note>& notes) {
  constexpr std::uint64_t kMostLayers = 100'000;
  if (!file.layers || *file.layers == found) return {};
  if (*file.layers > kMostLayers || *file.layers < found) {
    return fail(ErrorCode::malformed,
                fmt::format("{}: block_count says {} layers, the tensors describe {}", file.file,
                            *file.layers, found));
  }
  notes.push_back({"layers_elsewhere",
                   {{"file", file.file},
                    {"found", static_cast<std::int64_t>(found)},
                    {"layers", static_cast<std::int64_t>(*file.layers)}}});
  return {};
}

}  // namespace

std::optional<std::uint64_t> checked_product(const std::vector<std::uint64_t>& factors) {
  FlopCount product = 1;
  for (std::uint64_t factor : factors) product *= factor;
  if (product > FlopCount(1ull << 62)) return std::nullopt;
  return product.low();
}

Result<ModelSpec> model_of_tensors(const TensorFile& file) {
  ModelSpec model;
  model.type = model.architecture = file.architecture.empty() ? "tensors" : file.architecture;
  model.lower_bound = true;
  std::map<std::string, std::map<std::uint64_t, Layer>> layered;
  Layer single;
  std::vector<const TensorInfo*> tables;
  bool has_head = false;
  std::uint64_t bytes = 0;
  for (const TensorInfo& tensor : file.tensors) {
    bytes += tensor.bytes;
    LayerName name = split_name(tensor.name);
    if (name.layered) {
      layered[name.prefix][name.index][name.rest] = &tensor;
      continue;
    }
    single[tensor.name] = &tensor;
    if (is_table(tensor.name) && tensor.shape.size() == 2) tables.push_back(&tensor);
    has_head = has_head || is_head(tensor.name);
  }
  model.weight_bytes = bytes;
  push_stages(model, "", false, layer_kind(single, file), 1);
  for (const auto& [prefix, layers] : layered) add_layers(model, prefix, layers, file);
  add_tied_head(model, tables, has_head);
  std::uint64_t layers = 0;
  for (const auto& [prefix, found] : layered)
    layers = std::max<std::uint64_t>(layers, found.size());
  MFU_TRY(check_layers(file, layers, model.notes));
  MFU_TRY(check_parameters(model, file.file));
  model.notes.push_back({file.heads ? "from_tensor_shapes" : "from_tensor_shapes_without_heads",
                         {{"file", file.file}}});
  return model;
}

}  // namespace mfu
