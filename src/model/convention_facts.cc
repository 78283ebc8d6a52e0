#include "model/convention_facts.h"

#include <algorithm>

#include "model/parameters.h"

namespace mfu {
namespace {

void add_projection(ModelFacts& facts, Part part, const Projection& work, std::uint64_t layers) {
  if (work.rows != Rows::tokens && work.rows != Rows::latents && work.rows != Rows::logits) return;
  std::uint64_t weights = work.in * work.out * work.active * layers;
  facts.matmul += weights;
  if (part == Part::router) facts.router += weights;
  if (part == Part::lm_head) facts.head += weights;
  if (part == Part::experts && work.copies > 1) {
    facts.experts = work.copies;
    facts.experts_active = work.active;
    facts.expert_width = std::min(work.in, work.out) == facts.hidden ? std::max(work.in, work.out)
                                                                     : std::min(work.in, work.out);
  }
}

void add_attention(ModelFacts& facts, const Attention& work, std::uint64_t layers) {
  if (work.rows != Rows::tokens || work.mask.kind == MaskKind::cross) return;
  facts.attention.push_back({work.mask, layers, work.heads, work.kv_heads, work.qk_dim, work.v_dim,
                             work.latent_dim != 0});
}

void add_recurrence(ModelFacts& facts, const Recurrence& work, std::uint64_t layers) {
  std::uint64_t state = work.heads * work.key_dim * work.value_dim * layers;
  if (work.kind == RecurrenceKind::delta_rule) {
    facts.delta_state += state;
  } else {
    facts.scan_state += state;
  }
}

void add_kind(ModelFacts& facts, const LayerKind& kind, std::uint64_t layers) {
  bool delta = false;
  std::uint64_t convolution = 0;
  for (const Component& component : kind.components) {
    if (const auto* work = std::get_if<Projection>(&component.work)) {
      add_projection(facts, component.part, *work, layers);
      if (component.name.ends_with("mlp.up_proj") || component.part == Part::mlp) {
        facts.gated = facts.gated || component.name.find("gate") != std::string::npos;
      }
    } else if (const auto* attention = std::get_if<Attention>(&component.work)) {
      if (component.part != Part::indexer) add_attention(facts, *attention, layers);
    } else if (const auto* recurrence = std::get_if<Recurrence>(&component.work)) {
      add_recurrence(facts, *recurrence, layers);
      delta = recurrence->kind == RecurrenceKind::delta_rule;
    } else if (const auto* work_of = std::get_if<Convolution>(&component.work)) {
      convolution += work_of->kernel * work_of->channels;
    }
  }
  if (delta) facts.convolution += convolution * layers;
}

// Twice the area, so that halves are whole numbers.
Uint128 doubled_area(const Mask& mask, const Span& span, Area area) {
  Uint128 n = span.length, c = span.context;
  Uint128 square = 2 * n * (c + n), causal = 2 * n * c + n * n;
  bool window = mask.kind == MaskKind::window || mask.kind == MaskKind::top_k;
  bool bound = window && mask.size < c + n;
  switch (area) {
    case Area::square:
      return square;
    case Area::causal:
      return causal;
    case Area::windowed: {
      if (mask.kind == MaskKind::chunked && c == 0 && mask.size < n) {
        Uint128 chunk = mask.size, rest = n % chunk;
        return n / chunk * chunk * chunk + rest * rest;
      }
      if (!bound) return causal;
      Uint128 w = mask.size;
      return c == 0 ? 2 * n * w - w * w : 2 * n * w;
    }
    case Area::clamped:
      return bound ? 2 * n * mask.size : square;
    case Area::clamped_half:
      return bound ? n * mask.size : causal;
  }
  return causal;
}

}  // namespace

ModelFacts facts_of(const ModelSpec& model, bool mtp) {
  ModelFacts facts;
  ParameterCount count = count_parameters(model);
  facts.parameters = count.total;
  facts.active = count.active;
  facts.embedding = count.by_part[Part::embedding];
  facts.vision = count.by_part[Part::vision];
  facts.hidden = model.hidden;
  facts.vocab = model.vocab;
  facts.ffn = model.ffn;
  facts.tied = model.tied;
  facts.gated = false;
  for (const Stage& stage : model.stages) {
    if (stage.stream != Stream::text || (stage.mtp && !mtp)) continue;
    for (const LayerRun& run : stage.order) {
      if (stage.repeated && !stage.mtp) facts.layers += run.count;
      add_kind(facts, stage.kinds[run.kind], run.count);
    }
  }
  return facts;
}

FlopCount attention_forward(const ModelFacts& facts, const ResolvedWork& load, Area area) {
  FlopCount total;
  bool simple = area == Area::square || area == Area::causal;
  for (const AttentionFacts& layer : facts.attention) {
    Uint128 doubled = 0;
    if (load.only_sums && simple) {
      Uint128 cached = static_cast<Uint128>(load.sums.tokens) * load.spans.front().context * 2;
      doubled = cached + load.sums.squares * (area == Area::square ? 2 : 1);
    } else {
      for (const Span& span : load.spans) {
        doubled += doubled_area(layer.mask, span, area) * span.count;
      }
    }
    total +=
        FlopCount::from_wide(doubled) * layer.layers * layer.heads * (layer.qk_dim + layer.v_dim);
  }
  return total;
}

FlopCount square_area(const ResolvedWork& load) {
  FlopCount cached = FlopCount(load.sums.tokens) * load.spans.front().context;
  return FlopCount::from_wide(load.sums.squares) + cached;
}

}  // namespace mfu
