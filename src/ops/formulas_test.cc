#include "ops/formulas.h"

#include <gtest/gtest.h>

#include <array>

namespace mfu {
namespace {

TEST(OpsFormulas, a_matrix_multiply_is_twice_its_products) {
  EXPECT_EQ(matmul_flop(2, 3, 4), 48u);  // 2·2·3·4
  EXPECT_EQ(batched_matmul_flop(5, 2, 3, 4), 240u);
  EXPECT_EQ(matmul_flop(0, 3, 4), 0u);
  EXPECT_EQ(matmul_flop(-1, 3, 4), 0u);
}

TEST(OpsFormulas, what_does_not_fit_saturates) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_EQ(matmul_flop(kHuge, kHuge, 2), kMostFlop);
  EXPECT_EQ(plus(kMostFlop, 1), kMostFlop);
  EXPECT_EQ(visible_pairs(kHuge, kHuge, {}), kMostFlop);
  EXPECT_EQ(visible_pairs(kHuge, kHuge, {.causal = true}), kMostFlop);
}

// Counts the pairs of the mask one by one, straight from its definition.
std::uint64_t drawn_pairs(std::int64_t queries, std::int64_t keys, const AttentionMask& mask) {
  std::int64_t shift = mask.bottom_right ? keys - queries : 0;
  std::int64_t right = mask.causal ? 0 : mask.window_right;
  std::uint64_t pairs = 0;
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t j = 0; j < keys; ++j) {
      bool before = right < 0 || j <= i + shift + right;
      bool after = mask.window_left < 0 || j >= i + shift - mask.window_left;
      if (before && after) ++pairs;
    }
  }
  return pairs;
}

TEST(OpsFormulas, visible_pairs_are_the_drawn_ones) {
  for (std::int64_t queries = 0; queries < 8; ++queries) {
    for (std::int64_t keys = 0; keys < 8; ++keys) {
      for (int flags = 0; flags < 4; ++flags) {
        for (std::int64_t left = -1; left < 9; ++left) {
          for (std::int64_t right = -1; right < 9; ++right) {
            AttentionMask mask{.causal = (flags & 1) != 0,
                               .bottom_right = (flags & 2) != 0,
                               .window_left = left,
                               .window_right = right};
            ASSERT_EQ(visible_pairs(queries, keys, mask), drawn_pairs(queries, keys, mask))
                << queries << " queries, " << keys << " keys, flags " << flags << ", window "
                << left << ", " << right;
          }
        }
      }
    }
  }
}

TEST(OpsFormulas, causal_pairs_of_a_long_sequence_in_closed_form) {
  constexpr std::int64_t kLength = 1 << 20;
  std::uint64_t expected = static_cast<std::uint64_t>(kLength) * (kLength + 1) / 2;
  EXPECT_EQ(visible_pairs(kLength, kLength, {.causal = true}), expected);
  EXPECT_EQ(visible_pairs(1, kLength, {.causal = true, .bottom_right = true}), 1u << 20);
  EXPECT_EQ(visible_pairs(1, kLength, {.causal = true}), 1u);
}

TEST(OpsFormulas, attention_backward_is_five_matmuls_of_which_the_model_needs_four) {
  AttentionShape shape{
      .batch = 2, .heads = 3, .queries = 5, .keys = 7, .width_qk = 4, .width_v = 4};
  std::uint64_t pairs = 2 * 3 * 5 * 7;
  EXPECT_EQ(attention_forward(shape).hardware_flop, 4 * pairs * 4);
  EXPECT_EQ(attention_forward(shape).model_flop, 4 * pairs * 4);
  EXPECT_EQ(attention_backward(shape).hardware_flop, 10 * pairs * 4);
  EXPECT_EQ(attention_backward(shape).model_flop, 8 * pairs * 4);
  shape.width_v = 6;
  EXPECT_EQ(attention_forward(shape).hardware_flop, 2 * pairs * (4 + 6));
  EXPECT_EQ(attention_backward(shape).hardware_flop, 2 * pairs * (3 * 4 + 2 * 6));
  EXPECT_EQ(attention_backward(shape).model_flop, 2 * pairs * (2 * 4 + 2 * 6));
}

// Counts every product of a convolution one by one, for each output position and each weight.
std::uint64_t looped_products(std::int64_t batch, std::span<const std::int64_t> weight,
                              std::int64_t positions) {
  std::uint64_t products = 0;
  for (std::int64_t image = 0; image < batch; ++image) {
    for (std::int64_t at = 0; at < positions; ++at) {
      for (std::int64_t out = 0; out < weight[0]; ++out) {
        for (std::int64_t in = 0; in < weight[1]; ++in) {
          for (std::int64_t k = 0; k < weight[2]; ++k) ++products;
        }
      }
    }
  }
  return products;
}

TEST(OpsFormulas, a_convolution_is_its_loops_counted) {
  for (std::int64_t length = 3; length < 12; ++length) {
    for (std::int64_t stride = 1; stride < 4; ++stride) {
      for (std::int64_t dilation = 1; dilation < 3; ++dilation) {
        std::array<std::int64_t, 3> weight{4, 2, 2};
        std::int64_t positions = 0;  // counted by loops, with a padding of 1
        for (std::int64_t at = -1; at + dilation * (weight[2] - 1) <= length; at += stride) {
          ++positions;
        }
        EXPECT_EQ(convolved_size(length, weight[2], stride, 1, dilation), positions);
        EXPECT_EQ(convolution_flop(3, weight, std::array<std::int64_t, 1>{positions}),
                  2 * looped_products(3, weight, positions));
      }
    }
  }
}

}  // namespace
}  // namespace mfu
