#include "model/cost.h"

namespace mfu {
namespace {

FlopCount wide(Uint128 count) {
  return FlopCount::from_wide(count);
}

std::uint64_t rows_of(const ResolvedWork& load, Counting counting, Rows rows) {
  return load.rows(counting)[static_cast<std::size_t>(rows)];
}

FlopCount projection_flop(const Projection& work, const ResolvedWork& load, Counting counting) {
  std::uint64_t active = counting == Counting::needed ? work.active : work.executed;
  return FlopCount(2) * rows_of(load, counting, work.rows) * active * work.in * work.out;
}

FlopCount tower_pairs(const Attention& attention, const ResolvedWork& load, Counting counting) {
  const ImageGrid& grid = load.grid;
  if (attention.mask.kind == MaskKind::pooled) {  // an average, which no model needs
    std::uint64_t outputs =
        counting == Counting::needed ? 0 : rows_of(load, counting, Rows::merged);
    return FlopCount(grid.height * grid.width) * outputs;
  }
  if (attention.mask.kind == MaskKind::blocks) {
    return wide(block_pairs(grid.height, grid.width, attention.mask.size)) * grid.frames *
           load.images;
  }
  std::uint64_t patches = grid.height * grid.width;
  std::uint64_t sequences = load.images;
  if (load.per_frame && load.class_tokens == 0) {
    sequences *= grid.frames;
  } else {
    patches *= grid.frames;
  }
  std::uint64_t length = patches + load.class_tokens;
  return FlopCount(length) * length * sequences;
}

FlopCount encoder_pairs(const Attention& attention, const ResolvedWork& load) {
  if (load.phase == Phase::decode) return 0;
  Span span{load.encoder_length, 0, 1};
  return wide(attended_pairs(attention.mask, span, 0)) * load.sums.sequences;
}

// If only Σs and Σs² are known, causal and bidirectional areas are exact. Others use mean lengths.
FlopCount text_pairs_of_sums(const Attention& attention, const ResolvedWork& load, bool square) {
  FlopCount squares = wide(load.sums.squares);
  FlopCount cached = FlopCount(load.sums.tokens) * load.spans.front().context;
  if (square || attention.mask.kind == MaskKind::bidirectional) return squares + cached;
  return wide((load.sums.squares + load.sums.tokens) / 2) + cached;
}

// A training step does not tell where its prompts end, but their images are known.
Mask resolved(const Mask& mask, const ResolvedWork& load) {
  if (mask.kind != MaskKind::prefix || mask.size != kPromptPrefix) return mask;
  if (load.phase == Phase::decode) return {MaskKind::causal, 0};
  if (load.phase == Phase::prefill) return {MaskKind::bidirectional, 0};
  return {MaskKind::prefix,
          load.needed[static_cast<std::size_t>(Rows::merged)] / load.sums.sequences};
}

// The extra pairs if the tokens of an image also see those that follow them: half of the image's
// square.
FlopCount picture_pairs(const Attention& attention, const ResolvedWork& load) {
  if (!attention.pictures_whole || load.images == 0 || load.phase == Phase::decode) return 0;
  std::uint64_t each = load.needed[static_cast<std::size_t>(Rows::merged)] / load.images;
  return wide(Uint128(each) * (each - 1) / 2) * load.images;
}

FlopCount text_pairs(const Attention& given, const ResolvedWork& load, Counting counting) {
  Attention attention = given;
  attention.mask = resolved(given.mask, load);
  bool square = counting != Counting::needed;
  MaskKind kind = attention.mask.kind;
  bool closed = kind == MaskKind::causal || kind == MaskKind::bidirectional;
  if (load.only_sums && (closed || square) && kind != MaskKind::cross) {
    return text_pairs_of_sums(attention, load, square) +
           (square ? FlopCount(0) : picture_pairs(attention, load));
  }
  Mask cached = attention.cuts_cache ? attention.mask : Mask{};
  if (kind == MaskKind::cross) cached = attention.mask;
  if (kind == MaskKind::joint) square = false;  // it is a square already
  FlopCount pairs = square ? FlopCount(0) : picture_pairs(attention, load);
  for (const Span& span : load.spans) {
    FlopCount one = square ? FlopCount(span.length) * held_keys(cached, span, load.encoder_length)
                           : wide(attended_pairs(attention.mask, span, load.encoder_length));
    pairs += one * span.count;
  }
  return pairs;
}

// The widths of the two products: queries with keys, and weights with values.
struct Widths {
  std::uint64_t scores = 0, values = 0;
};
Widths widths_of(const Attention& attention, const ResolvedWork& load, Counting counting) {
  if (attention.latent_dim != 0 && load.absorbed && counting == Counting::needed) {
    return {attention.latent_dim + attention.rope_dim, attention.latent_dim};
  }
  return {attention.qk_dim, attention.v_dim};
}

FlopCount attention_flop(const Attention& attention, const ResolvedWork& load, Counting counting) {
  Widths widths = widths_of(attention, load, counting);
  return total_pairs(attention, load, counting) * 2 * attention.heads *
         (widths.scores + widths.values);
}

// dV = Pᵀ·dO and dP = dO·Vᵀ are as wide as the values, dQ and dK as wide as the scores. A fused
// kernel computes the scores once more.
FlopCount attention_backward(const Attention& attention, const ResolvedWork& load,
                             Counting counting, std::uint8_t wires) {
  Widths widths = widths_of(attention, load, counting);
  bool query = wires & wire::query, key = wires & wire::key, value = wires & wire::value;
  if (!query && !key && !value) return 0;
  std::uint64_t width = (value ? widths.values : 0) + (query || key ? widths.values : 0) +
                        (query ? widths.scores : 0) + (key ? widths.scores : 0);
  bool fused = counting == Counting::executed_fused && attention.rows != Rows::images;
  if (fused) width = 3 * widths.scores + 2 * widths.values;
  return total_pairs(attention, load, counting) * 2 * attention.heads * width;
}

// The outputs that the causal convolution of Hugging Face computes. It pads both ends by k - 1 and
// cuts the result. With a cache it also runs over the k kept inputs; a single token is not padded.
std::uint64_t convolution_outputs(const Convolution& convolution, const Span& span, Phase phase) {
  std::uint64_t k = convolution.kernel;
  if (span.context != 0) return span.length == 1 ? 2 : span.length + 2 * k - 1;
  bool caches = phase == Phase::prefill || phase == Phase::decode;
  std::uint64_t inputs = caches && span.length < k ? k : span.length;
  return inputs + k - 1;
}

FlopCount convolution_flop(const Convolution& work, const ResolvedWork& load, Counting counting) {
  FlopCount outputs = load.sums.tokens;
  if (counting != Counting::needed) {
    outputs = 0;
    for (const Span& span : load.spans) {
      outputs += FlopCount(convolution_outputs(work, span, load.phase)) * span.count;
    }
  }
  return outputs * 2 * work.kernel * work.channels;
}

std::uint64_t padded(std::uint64_t length, std::uint64_t chunk) {
  return (length + chunk - 1) / chunk * chunk;
}

// Mamba-2 in chunks of Q (arXiv 2405.21060 §6, as HF writes it): C·Bᵀ, its product with x, the
// chunk states, the (nc + 1)² pass over chunks, and states to outputs.
FlopCount mamba2_chunked(const Recurrence& work, std::uint64_t length) {
  FlopCount rows = padded(length, work.chunk);
  FlopCount chunks = padded(length, work.chunk) / work.chunk + 1;
  FlopCount state = FlopCount(work.heads) * work.key_dim * work.value_dim;
  return rows * 2 * work.chunk * work.heads * (work.key_dim + work.value_dim) + rows * 4 * state +
         chunks * chunks * 2 * state;
}

// The gated delta rule in chunks of C (arXiv 2412.06464): k·kᵀ and q·kᵀ, the result times v, and
// three products with the state. torch does not count the triangular solves.
FlopCount delta_chunked(const Recurrence& work, std::uint64_t length) {
  FlopCount rows = padded(length, work.chunk);
  return rows * work.chunk * work.heads * (4 * work.key_dim + 2 * work.value_dim) +
         rows * 6 * work.heads * work.key_dim * work.value_dim;
}

// The first state is constant and the last one is dropped, so two of the products with each have no
// pair of gradients. Each triangular solve adds one product, for the gradient of its matrix.
FlopCount delta_chunked_backward(const Recurrence& work, std::uint64_t length) {
  FlopCount rows = padded(length, work.chunk);
  FlopCount unused = FlopCount(8) * work.heads * work.chunk * work.key_dim * work.value_dim;
  FlopCount solves = rows * 2 * work.chunk * work.heads * (work.key_dim + work.value_dim);
  return delta_chunked(work, length) * 2 + solves - unused;
}

FlopCount recurrence_executed(const Recurrence& work, const Span& span) {
  FlopCount state = FlopCount(work.heads) * work.key_dim * work.value_dim;
  bool stepwise = span.length == 1 && span.context != 0;
  switch (work.kind) {
    case RecurrenceKind::mamba:
      return state * 2 * span.length;
    case RecurrenceKind::mamba2:
      return stepwise ? state * 2 : mamba2_chunked(work, span.length);
    case RecurrenceKind::delta_rule:
      return stepwise ? FlopCount(0) : delta_chunked(work, span.length);
    case RecurrenceKind::wkv:
      return 0;
  }
  return 0;
}

FlopCount recurrence_flop(const Recurrence& work, const ResolvedWork& load, Counting counting) {
  if (counting == Counting::needed) {
    return FlopCount(load.sums.tokens) * recurrence_flop_per_token(work);
  }
  FlopCount total;
  for (const Span& span : load.spans) total += recurrence_executed(work, span) * span.count;
  return total;
}

FlopCount recurrence_backward(const Recurrence& work, const ResolvedWork& load, Counting counting) {
  if (counting == Counting::needed || work.kind != RecurrenceKind::delta_rule) {
    return recurrence_flop(work, load, counting) * 2;
  }
  FlopCount total;
  for (const Span& span : load.spans) {
    total += delta_chunked_backward(work, span.length) * span.count;
  }
  return total;
}

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace

std::uint64_t recurrence_flop_per_token(const Recurrence& recurrence) {
  std::uint64_t state = recurrence.heads * recurrence.key_dim * recurrence.value_dim;
  switch (recurrence.kind) {
    case RecurrenceKind::mamba:
    case RecurrenceKind::mamba2:
      return 9 * state;  // state-spaces/mamba#110
    case RecurrenceKind::delta_rule:
      return 8 * state;  // read, erase, write, read: each is a multiply-add over the state
    case RecurrenceKind::wkv:
      return 6 * state;
  }
  return 0;
}

FlopCount total_pairs(const Attention& attention, const ResolvedWork& load, Counting counting) {
  switch (attention.rows) {
    case Rows::tower:
      return tower_pairs(attention, load, counting);
    case Rows::encoder:
      return encoder_pairs(attention, load);
    case Rows::images:
      return FlopCount(load.sums.sequences) * load.images;
    default:
      return text_pairs(attention, load, counting);
  }
}

FlopCount forward_flop(const Component& component, const ResolvedWork& load, Counting counting) {
  return std::visit(
      Overloaded{
          [](const Weights&) { return FlopCount(0); },
          [&](const Projection& work) { return projection_flop(work, load, counting); },
          [&](const Attention& work) { return attention_flop(work, load, counting); },
          [&](const Convolution& work) { return convolution_flop(work, load, counting); },
          [&](const Recurrence& work) { return recurrence_flop(work, load, counting); },
      },
      component.work);
}

FlopCount backward_flop(const Component& component, const ResolvedWork& load, Counting counting,
                        const BackwardNeed& need) {
  if (component.without_gradient) return 0;
  bool input = (component.reads & need.wires) != 0;
  if (const auto* work = std::get_if<Projection>(&component.work)) {
    std::uint64_t times = (input ? 1 : 0) + (need.trained ? 1 : 0);
    return times == 0 ? FlopCount(0) : projection_flop(*work, load, counting) * times;
  }
  if (const auto* work = std::get_if<Attention>(&component.work)) {
    if (work->mask.kind == MaskKind::pooled) {  // by a matrix that is not learned
      return input ? attention_flop(*work, load, counting) : FlopCount(0);
    }
    return attention_backward(*work, load, counting, need.wires);
  }
  if (const auto* work = std::get_if<Convolution>(&component.work)) {
    // torch counts the weight gradient of a depthwise convolution like that of a dense one, which
    // is `channels` times too much.
    std::uint64_t weight = counting == Counting::needed ? 1 : work->channels;
    return convolution_flop(*work, load, counting) *
           ((input ? 1 : 0) + (need.trained ? weight : 0));
  }
  if (const auto* work = std::get_if<Recurrence>(&component.work)) {
    return input ? recurrence_backward(*work, load, counting) : FlopCount(0);
  }
  return 0;
}

AdapterFlop adapter_flop(const Projection& projection, const ResolvedWork& load, Counting counting,
                         std::uint64_t rank, bool input_gradient) {
  std::uint64_t active = counting == Counting::needed ? projection.active : projection.executed;
  FlopCount unit = FlopCount(2) * rows_of(load, counting, projection.rows) * active * rank;
  FlopCount forward = unit * (projection.in + projection.out);
  FlopCount inputs = unit * (projection.out + (input_gradient ? projection.in : 0));
  return {forward, forward + inputs};
}

}  // namespace mfu
