// Bytes of weights in their format, bytes of the cache, and what a step of inference must move.
#include <algorithm>
#include <cmath>

#include "mfu/workload.h"
#include "model/parameters.h"
#include "model/resolved_work.h"

namespace mfu {
namespace {

constexpr std::uint64_t kCacheBytes = 2;  // a 16-bit cache, as servers keep by default
constexpr std::uint64_t kStateBytes = 4;  // recurrent states are kept in fp32

std::uint64_t ceil_divided(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

bool is_quantised(const WeightFormat& format, const Stage& stage, const Component& component) {
  if (format.quantization == Quantization::none || !stage.repeated ||
      stage.stream == Stream::vision) {
    return false;
  }
  if (!std::holds_alternative<Projection>(component.work) || component.part == Part::router) {
    return false;
  }
  return !format.experts_only || component.part == Part::experts;
}

// The bytes of one matrix with its scales. fp8 has an fp32 scale per block; int4 and int8 have an
// fp16 scale and a packed zero point per group of inputs; mxfp4 (OCP MX) has an 8-bit scale per 32
// weights.
std::uint64_t quantised_bytes(const WeightFormat& format, std::uint64_t in, std::uint64_t out) {
  std::uint64_t groups = format.group == 0 ? 1 : ceil_divided(in, format.group);
  switch (format.quantization) {
    case Quantization::fp8:
      return in * out + 4 * groups * ceil_divided(out, format.block_rows);
    case Quantization::int8:
      return in * out + groups * out * 3;
    case Quantization::int4:
      return ceil_divided(in * out, 2) + groups * out * 2 + ceil_divided(groups * out, 2);
    case Quantization::mxfp4:
      return ceil_divided(in * out, 2) + groups * out;
    case Quantization::none:
      break;
  }
  return in * out * format.bits / 8;
}

// The bytes of one copy of the component's weights.
std::uint64_t copy_bytes(const ModelSpec& model, const Stage& stage, const Component& component) {
  std::uint64_t width = model.format.bits / 8;
  const auto* work = std::get_if<Projection>(&component.work);
  if (work == nullptr) return parameters_of(component) * width;
  std::uint64_t bias = work->bias ? work->out * width : 0;
  if (is_quantised(model.format, stage, component)) {
    return quantised_bytes(model.format, work->in, work->out) + bias;
  }
  return work->in * work->out * width + bias;
}

std::uint64_t stored_bytes(const ModelSpec& model, const Stage& stage, const Component& component) {
  const auto* work = std::get_if<Projection>(&component.work);
  if (work == nullptr) return copy_bytes(model, stage, component);
  return work->stored ? work->copies * copy_bytes(model, stage, component) : 0;
}

// How many different experts `rows` tokens reach if each token uses k of E: E (1 - (1 - k/E)^rows).
double experts_reached(const Projection& work, std::uint64_t rows) {
  double all = static_cast<double>(work.copies), each = static_cast<double>(work.active);
  if (work.copies <= 1) return all;
  return all * (1 - std::pow(1 - std::min(1.0, each / all), static_cast<double>(rows)));
}

std::uint64_t read_bytes(const ModelSpec& model, const Stage& stage, const Component& component,
                         const ResolvedWork& load) {
  if (component.part == Part::embedding) {
    // A lookup reads only its rows. A tied head reads the whole table, which is counted at the
    // head.
    std::uint64_t rows = std::min(load.sums.tokens, model.vocab);
    return rows * model.hidden * model.format.bits / 8;
  }
  const auto* work = std::get_if<Projection>(&component.work);
  if (work == nullptr) return copy_bytes(model, stage, component);
  std::uint64_t rows = load.needed[static_cast<std::size_t>(work->rows)];
  if (rows == 0) return 0;
  double copies = experts_reached(*work, rows);
  return static_cast<std::uint64_t>(
      std::llround(copies * static_cast<double>(copy_bytes(model, stage, component))));
}

std::uint64_t cache_per_token(const Attention& attention, Part part) {
  if (!attention.cached) return 0;
  if (part == Part::indexer) return attention.qk_dim * kCacheBytes;
  if (attention.latent_dim != 0) {
    return (attention.latent_dim + attention.rope_dim) * kCacheBytes;
  }
  return attention.kv_heads * (attention.qk_dim + attention.v_dim) * kCacheBytes;
}

std::uint64_t kept(const Mask& mask, std::uint64_t tokens) {
  bool bounded = mask.kind == MaskKind::window || mask.kind == MaskKind::chunked;
  return bounded ? std::min(tokens, mask.size) : tokens;
}

struct Traffic {
  const ResolvedWork& load;
  ByteNeed need;
  std::uint64_t read = 0, written = 0;

  void add_attention(const Attention& attention, Part part, std::uint64_t layers);
  void add_state(std::uint64_t bytes, std::uint64_t layers);
};

void Traffic::add_attention(const Attention& attention, Part part, std::uint64_t layers) {
  if (attention.rows != Rows::tokens) return;
  std::uint64_t each = cache_per_token(attention, part) * layers;
  if (attention.mask.kind == MaskKind::cross) {
    std::uint64_t bytes = each * load.encoder_length * load.sums.sequences;
    need.kv_cache += bytes;
    (load.phase == Phase::decode ? read : written) += bytes;
    return;
  }
  need.kv_cache_per_token += each;
  for (const Span& span : load.spans) {
    need.kv_cache += each * kept(attention.mask, span.context + span.length) * span.count;
    std::uint64_t seen = kept(attention.mask, span.context);
    // Sparse attention reads only the chosen keys, but the indexer reads all of them.
    if (attention.mask.kind == MaskKind::top_k) {
      seen = std::min(seen, attention.mask.size * span.length);
    }
    read += each * seen * span.count;
    written += each * kept(attention.mask, span.length) * span.count;
  }
}

void Traffic::add_state(std::uint64_t bytes, std::uint64_t layers) {
  std::uint64_t all = bytes * layers * load.sums.sequences;
  need.state += all;
  if (load.spans.front().context != 0) read += all;
  written += all;
}

void add_component(Traffic& traffic, const ModelSpec& model, const Stage& stage,
                   const Component& component, std::uint64_t layers) {
  traffic.read += read_bytes(model, stage, component, traffic.load) * layers;
  if (const auto* attention = std::get_if<Attention>(&component.work)) {
    if (!model.encoder_only) traffic.add_attention(*attention, component.part, layers);
  } else if (const auto* work = std::get_if<Recurrence>(&component.work)) {
    traffic.add_state(work->heads * work->key_dim * work->value_dim * kStateBytes, layers);
  } else if (const auto* convolution = std::get_if<Convolution>(&component.work)) {
    traffic.add_state(convolution->channels * (convolution->kernel - 1) * kCacheBytes, layers);
  }
}

}  // namespace

Result<ByteNeed> bytes_per_step(const ModelSpec& model, const Workload& work) {
  ResolvedWork load = MFU_TRY(resolve_work(model, work));
  Traffic traffic{.load = load, .need = {}};
  for (const Stage& stage : model.stages) {
    std::vector<std::uint64_t> layers(stage.kinds.size());
    for (const LayerRun& run : stage.order) layers[run.kind] += run.count;
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      if (layers[kind] == 0) continue;
      for (const Component& component : stage.kinds[kind].components) {
        if (!stage.mtp || work.mtp) {
          traffic.need.weights += stored_bytes(model, stage, component) * layers[kind];
        }
        if (runs_in(stage, load, work.mtp)) {
          add_component(traffic, model, stage, component, layers[kind]);
        }
      }
    }
  }
  ByteNeed need = traffic.need;
  if (model.weight_bytes) need.weights = *model.weight_bytes;
  need.kv_cache += need.state;
  if (work.phase != Phase::train) {
    need.step_read = traffic.read;
    need.step_written = traffic.written;
  }
  return need;
}

}  // namespace mfu
