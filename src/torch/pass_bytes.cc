#include "torch/pass_bytes.h"

#include <algorithm>

#include "torch/mask_rows.h"

namespace mfu::observer {
namespace {

// Between self-attention and cross-attention there are only two products: the output and the next
// query. The keys were there before.
constexpr std::uint64_t kCrossProducts = 2;

// How many heads the cache keeps. Programs repeat keys and values for heads that share them. The
// product before the attention made keys and values (or queries too), and is as wide as they were
// before.
std::uint64_t cached_heads(const Thread& thread, const AttendedSizes& shape) {
  if (shape.key_heads != shape.query_heads || shape.value_width == 0) return shape.key_heads;
  std::uint64_t columns = thread.columns, heads = shape.query_heads, kept = 0;
  std::uint64_t fused = heads * shape.key_width, each = shape.key_width + shape.value_width;
  if (columns < heads * shape.value_width && columns % shape.value_width == 0) {
    kept = columns / shape.value_width;
  } else if (columns > fused && (columns - fused) % each == 0) {
    kept = (columns - fused) / each;
  }
  bool shared = kept != 0 && kept < heads && heads % kept == 0;
  return shared ? kept : heads;
}

// How many rows of keys this pass made itself: all if the product before had as many rows; none if
// only the query was made since the attention before (cross-attention to an encoder).
std::uint64_t new_keys(Thread& thread, const AttendedSizes& shape, std::uint64_t keys) {
  std::uint64_t all = shape.batch * shape.keys;
  std::uint64_t products = thread.calls - thread.open.attention_calls;
  bool first = thread.open.attention_calls == 0;
  if (shape.keys != shape.queries && thread.product_rows == all) return keys;
  if (!first && products <= kCrossProducts && shape.keys != thread.open.keys) return 0;
  return std::min(keys, shape.batch * shape.queries);
}

// Elements per token in a cache of latents, if the product before the attention made keys and
// values from them for each head: the latent, and the part of the keys that has positions, which
// heads share. 0 if it did not.
std::uint64_t latent_width(const Thread& thread, const AttendedSizes& shape) {
  std::uint64_t heads = shape.query_heads;
  if (heads < 2 || shape.key_heads != heads || thread.columns % heads != 0) return 0;
  std::uint64_t made = thread.columns / heads;
  if (made <= shape.value_width || made - shape.value_width >= shape.key_width) return 0;
  std::uint64_t positions = shape.key_width - (made - shape.value_width);
  std::uint64_t width = thread.product_inner + positions;
  return width < heads * (shape.key_width + shape.value_width) ? width : 0;
}

void add_cache(Thread& thread, const AttendedSizes& shape, const MaskRows* mask) {
  std::uint64_t heads = cached_heads(thread, shape);
  std::uint64_t each = heads * (shape.key_width + shape.value_width) * shape.element_bytes;
  std::uint64_t keys = shape.batch * shape.keys;
  // A static cache is as long as it may become. What the mask leaves out need not move.
  if (mask != nullptr && mask->batch != 0) {
    keys = std::min(keys, mask->columns * (shape.batch / mask->batch));
  }
  std::uint64_t written = new_keys(thread, shape, keys);
  PassBytes& bytes = thread.open.bytes;
  std::uint64_t latent = heads == shape.query_heads ? latent_width(thread, shape) : 0;
  if (latent != 0 && thread.product_rows == shape.batch * shape.keys) {
    std::uint64_t own = std::min(keys, shape.batch * shape.queries);
    if (shape.keys != shape.queries) {
      bytes.latent = true;
      each = latent * shape.element_bytes;
      written = own;
    }
    bytes.latent_written += own * latent * shape.element_bytes;
  }
  bytes.cache_read += (keys - std::min(keys, written)) * each;
  bytes.cache_written += written * each;
  if (mask == nullptr || mask->sequences < 2) return;
  Packed& packed = thread.open.packed;
  packed.decode.read += (mask->decode_columns - mask->decode_rows) * each;
  packed.decode.written += mask->decode_rows * each;
}

void add_packed(Thread& thread, const MaskRows& mask, const AttentionFlops& flop) {
  Packed& packed = thread.open.packed;
  std::uint64_t elements = mask.rows * mask.keys;
  if (elements == 0) return;
  packed.sequences = mask.sequences;
  packed.rows = mask.rows;
  packed.decode.sequences = packed.decode.rows = mask.decode_rows;
  packed.empty_rows = mask.empty_rows;
  auto share = [&](std::uint64_t whole, std::uint64_t part) {
    return static_cast<std::uint64_t>(static_cast<Uint128>(whole) * part / elements);
  };
  packed.model_flop += share(flop.model_flop, mask.area);
  packed.decode.model_flop += share(flop.model_flop, mask.decode_area);
  packed.hardware_flop += flop.hardware_flop;
  packed.type = flop.type;
  packed.decode.hardware_flop += share(flop.hardware_flop, mask.decode_rows * mask.keys);
}

// Whether its one row of tokens is several sequences.
bool packs(const MaskRows& mask, const AttendedSizes& shape) {
  return mask.sequences > 1 && shape.batch == 1 && mask.rows == shape.queries &&
         mask.keys == shape.keys;
}

}  // namespace

void note_operands(Thread& thread, const Operator& row, const Arguments& arguments,
                   const AttentionFlops& flop) noexcept {
  if (thread.pass == Pass::backward || thread.open.id == 0) return;
  if (row.kind != OperatorKind::attention) {
    std::optional<std::uint64_t> bytes = weight_bytes(row, arguments.view());
    if (bytes) {
      thread.open.bytes.weight_read += *bytes;
    } else if (row.kind == OperatorKind::matmul) {
      thread.open.bytes.unknown = true;
    }
    return;
  }
  std::optional<AttendedSizes> shape = attended_sizes(row, arguments.view());
  if (!shape) return;
  std::optional<MaskRows> mask;
  if (flop.mask != nullptr && thread.pass == Pass::plain) {
    mask = rows_of_mask(*flop.mask, thread.open.id, flop.mask_area);
  }
  add_cache(thread, *shape, mask ? &*mask : nullptr);
  if (mask && thread.open.used_keys == 0 && thread.open.keys == shape->keys) {
    thread.open.used_keys = mask->longest;
  }
  if (mask && packs(*mask, *shape)) add_packed(thread, *mask, flop);
  thread.open.attention_calls = thread.calls + 1;
}

void note_paged(Thread& thread, const PagedSizes& sizes, std::uint32_t type) noexcept {
  OpenPass& open = thread.open;
  if (thread.pass == Pass::backward || open.id == 0) return;
  Packed& packed = open.packed;
  // The first attention outside of an encoder tells which sequences there are.
  bool tells = sizes.causal && !packed.cached;
  auto add = [&](PackedPart& to, const PagedPart& part) {
    if (tells || packed.sequences == 0) {
      to.sequences = part.sequences;
      to.rows = part.rows;
    }
    to.model_flop += part.flop;
    to.hardware_flop += part.flop;
    std::uint64_t own = sizes.causal ? std::min(part.rows, part.keys) : 0;
    to.read += (part.keys - own) * sizes.token_bytes;
    to.written += own * sizes.token_bytes;
    packed.model_flop += part.flop;
    packed.hardware_flop += part.flop;
    open.bytes.cache_read += (part.keys - own) * sizes.token_bytes;
    open.bytes.cache_written += own * sizes.token_bytes;
  };
  PackedPart rest;
  add(packed.decode, sizes.one);
  add(packed.few, sizes.few);
  add(rest, sizes.many);
  if (tells || packed.sequences == 0) {
    packed.sequences = sizes.one.sequences + sizes.few.sequences + sizes.many.sequences;
    packed.rows = sizes.one.rows + sizes.few.rows + sizes.many.rows;
    packed.begun = sizes.begun;
    open.batch = packed.sequences;
  }
  packed.cached = packed.cached || sizes.causal;
  packed.type = type;
  open.attention_calls = thread.calls + 1;
}

void note_batched_cache(Thread& thread, const BatchedAttention& attention) noexcept {
  std::uint64_t batch = std::max<std::uint64_t>(thread.open.batch, 1);
  if (attention.heads % batch != 0) return;
  AttendedSizes shape{.batch = batch,
                      .queries = attention.queries,
                      .keys = attention.keys,
                      .query_heads = attention.heads / batch,
                      .key_heads = attention.heads / batch,
                      .key_width = attention.key_width,
                      .value_width = attention.value_width,
                      .element_bytes = attention.element_bytes};
  const MaskRows& scored = thread.open.scored;
  bool known = scored.keys == shape.keys && scored.columns != 0 && scored.batch == shape.batch;
  add_cache(thread, shape, known ? &scored : nullptr);
  if (known && packs(scored, shape)) {
    // These products compute what the mask leaves out, too.
    MaskRows computed = scored;
    computed.area = scored.rows * scored.keys;
    computed.decode_area = scored.decode_rows * scored.keys;
    std::uint64_t flop = 2 * attention.heads * attention.queries * attention.keys *
                         (attention.key_width + attention.value_width);
    add_packed(thread, computed,
               {.model_flop = flop,
                .hardware_flop = flop,
                .type = static_cast<std::uint32_t>(attention.type)});
  }
  thread.open.attention_calls = thread.calls + 2;  // it consists of two calls
}

}  // namespace mfu::observer
