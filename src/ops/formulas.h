// The arithmetic of an operator's FLOP on plain integers. It is inline and allocates nothing,
// because the observer runs it for every counted call. A negative size counts as 0. Products
// saturate at 2^64 - 1, which no real operator reaches (2^64 FLOP take hours on one device).
//
//   matmul_flop(m, k, n)
//   attention_forward({.batch = 2, .heads = 16, .queries = 512, .keys = 512, .width_qk = 64,
//                      .width_v = 64, .mask = {.causal = true}}).hardware_flop
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace mfu {

inline constexpr std::uint64_t kMostFlop = std::numeric_limits<std::uint64_t>::max();

inline constexpr std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMostFlop : product;
}
inline constexpr std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMostFlop : sum;
}
inline constexpr std::uint64_t size_of(std::int64_t size) {
  return size > 0 ? static_cast<std::uint64_t>(size) : 0;
}
inline constexpr std::uint64_t product_of(std::span<const std::int64_t> sizes) {
  std::uint64_t product = 1;
  for (std::int64_t size : sizes) product = times(product, size_of(size));
  return product;
}

// 2mnk: a multiply and an add for each of the m·n·k products, although k − 1 adds would be enough.
inline constexpr std::uint64_t matmul_flop(std::int64_t m, std::int64_t k, std::int64_t n) {
  return times(times(times(size_of(m), size_of(k)), size_of(n)), 2);
}
inline constexpr std::uint64_t batched_matmul_flop(std::int64_t batch, std::int64_t m,
                                                   std::int64_t k, std::int64_t n) {
  return times(matmul_flop(m, k, n), size_of(batch));
}

// A convolution multiplies every weight once for every position: those of the output, or those of
// the input if it is transposed. `weight` is [out, in/groups, k…], or [in, out/groups, k…] if
// transposed, so its element count already includes the groups. The gradient by the input and the
// one by the weight each make the same products, so a backward is this once for each gradient that
// was asked for. FlopCounterMode forgets the groups in the weight's gradient.
inline constexpr std::uint64_t convolution_flop(std::int64_t batch,
                                                std::span<const std::int64_t> weight,
                                                std::span<const std::int64_t> positions) {
  return times(times(times(size_of(batch), product_of(weight)), product_of(positions)), 2);
}

// One dimension of a convolution's output. Contract: stride > 0.
inline constexpr std::int64_t convolved_size(std::int64_t input, std::int64_t kernel,
                                             std::int64_t stride, std::int64_t padding,
                                             std::int64_t dilation) {
  std::int64_t reach = input + 2 * padding - dilation * (kernel - 1) - 1;
  return reach < 0 ? 0 : reach / stride + 1;
}

// Which pairs an attention operator computes. Query i sees key j if i + shift − left <= j <= i +
// shift + right. The shift is 0 if the first query is aligned with the first key (torch's
// is_causal), and keys − queries if the last ones are aligned (flash-attn).
struct AttentionMask {
  bool causal = false;  // right = 0
  bool bottom_right = false;
  std::int64_t window_left = -1;  // negative: no bound
  std::int64_t window_right = -1;
};

// Σ over i in [0, queries) of i + offset clamped to [0, keys].
inline constexpr std::uint64_t clamped_sum(std::int64_t queries, std::int64_t keys,
                                           std::int64_t offset) {
  __extension__ using Wide = __int128;
  std::int64_t first = offset < 0 ? -offset : 0;  // where it leaves 0
  if (first >= queries) return 0;
  std::int64_t last = keys - offset;  // where it reaches keys
  if (last < first) last = first;
  if (last > queries) last = queries;
  Wide ramp = static_cast<Wide>(last - first) *
              (2 * static_cast<Wide>(offset) + first + static_cast<Wide>(last) - 1) / 2;
  Wide sum = ramp + static_cast<Wide>(queries - last) * keys;
  return sum > static_cast<Wide>(kMostFlop) ? kMostFlop : static_cast<std::uint64_t>(sum);
}

// Contract: sizes and windows below 2^60.
inline constexpr std::uint64_t visible_pairs(std::int64_t queries, std::int64_t keys,
                                             const AttentionMask& mask) {
  if (queries <= 0 || keys <= 0) return 0;
  std::int64_t shift = mask.bottom_right ? keys - queries : 0;
  std::int64_t right = mask.causal ? 0 : mask.window_right;
  std::uint64_t upper = right < 0 ? times(size_of(queries), size_of(keys))
                                  : clamped_sum(queries, keys, shift + right + 1);
  std::uint64_t lower =
      mask.window_left < 0 ? 0 : clamped_sum(queries, keys, shift - mask.window_left);
  return upper - lower;
}

struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t heads = 0;  // of the queries; fewer key and value heads cost no less
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t width_qk = 0;
  std::int64_t width_v = 0;
  AttentionMask mask = {};
};

struct AttentionFlop {
  std::uint64_t model_flop = 0;
  std::uint64_t hardware_flop = 0;
};

// Scores are 2·pairs·d_qk and values 2·pairs·d_v. It takes pairs, so that those of packed sequences
// can be added up first.
inline constexpr AttentionFlop attention_forward(std::uint64_t pairs, std::int64_t width_qk,
                                                 std::int64_t width_v) {
  std::uint64_t flop = times(times(pairs, plus(size_of(width_qk), size_of(width_v))), 2);
  return {flop, flop};
}
// Five matmuls: the scores once more, dP and dV with the value's width, dQ and dK with the key's.
// The model needs the scores only once, in the forward, so model_flop leaves them out here.
inline constexpr AttentionFlop attention_backward(std::uint64_t pairs, std::int64_t width_qk,
                                                  std::int64_t width_v) {
  std::uint64_t model = times(times(pairs, plus(size_of(width_qk), size_of(width_v))), 4);
  return {model, plus(model, times(times(pairs, size_of(width_qk)), 2))};
}
inline constexpr std::uint64_t pairs_of(const AttentionShape& shape) {
  return times(visible_pairs(shape.queries, shape.keys, shape.mask),
               times(size_of(shape.batch), size_of(shape.heads)));
}
inline constexpr AttentionFlop attention_forward(const AttentionShape& shape) {
  return attention_forward(pairs_of(shape), shape.width_qk, shape.width_v);
}
inline constexpr AttentionFlop attention_backward(const AttentionShape& shape) {
  return attention_backward(pairs_of(shape), shape.width_qk, shape.width_v);
}

}  // namespace mfu
