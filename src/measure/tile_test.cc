#include "measure/tile.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

ModelSpec one_projection(std::uint64_t in, std::uint64_t out) {
  ModelSpec model;
  Component component{.part = Part::mlp, .work = Projection{.in = in, .out = out}};
  model.stages.push_back(
      {.kinds = {{.components = {component}}}, .order = {{.kind = 0, .count = 3}}});
  return model;
}

TEST(Tile, nothing_is_lost_where_sides_are_multiples) {
  EXPECT_DOUBLE_EQ(tile_share(one_projection(4096, 1024), 0), 1);
  EXPECT_DOUBLE_EQ(tile_share(one_projection(4096, 1024), 4096), 1);
  EXPECT_DOUBLE_EQ(tile_share({}, 0), 1);  // no weights: nothing to correct
}

// in 128, out 192, many rows M. Forward M×192 over 128: 256 columns run, 3/4. The input's gradient
// M×128 over 192: 1. The weight's 128×192 over M: 3/4. Needed 3, executed 4/3 + 1 + 4/3 = 11/3.
TEST(Tile, counts_the_three_multiplies_of_a_weight) {
  EXPECT_NEAR(tile_share(one_projection(128, 192), 0), 3.0 / (11.0 / 3.0), 1e-12);
}

// 100 rows run as 128 twice, and 100 along the depth as 112: needed 3 of 1.28 + 1.28 + 1.12.
TEST(Tile, counts_the_rows_of_a_step_too) {
  EXPECT_NEAR(tile_share(one_projection(128, 128), 100), 3 / (1.28 + 1.28 + 1.12), 1e-12);
}

TEST(Tile, is_a_share_for_every_shape) {
  for (std::uint64_t in = 1; in < 400; in += 37) {
    for (std::uint64_t out = 1; out < 400; out += 41) {
      for (std::uint64_t rows : {0u, 1u, 127u, 129u, 5000u}) {
        double share = tile_share(one_projection(in, out), rows);
        EXPECT_GT(share, 0);
        EXPECT_LE(share, 1);
      }
    }
  }
}

// Only GPT-2's vocabulary of 50257 does not fit the tiles: 393 tiles of 128 are 50304.
TEST(Tile, of_a_real_model_is_small) {
  ModelSpec model = *model_of_shape({.layers = 12, .hidden = 768, .heads = 12, .vocab = 50257});
  double share = tile_share(model, 8192);
  EXPECT_GT(share, 0.999);
  EXPECT_LT(share, 1);
}

}  // namespace
}  // namespace mfu
