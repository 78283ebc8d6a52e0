#include "mfu/utilization.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

using std::chrono::seconds;

UtilizationInput half_of_an_a100() {
  // 156e12 FLOP in one second on a device of 312e12: 50%
  return {.work = {{.model_flop = 156'000'000'000'000u, .peak = FlopRate{312e12}}},
          .duration = seconds(1)};
}

TEST(Utilization, is_need_over_time_devices_and_peak) {
  EXPECT_DOUBLE_EQ(utilization_of(half_of_an_a100())->mfu.value, 0.5);
}

TEST(Utilization, twice_the_time_or_the_devices_is_half_of_it) {
  for (std::uint64_t factor : {2u, 3u, 10u}) {
    UtilizationInput slower = half_of_an_a100();
    slower.duration *= static_cast<long>(factor);
    EXPECT_NEAR(utilization_of(slower)->mfu.value, 0.5 / static_cast<double>(factor), 1e-12);
    UtilizationInput wider = half_of_an_a100();
    wider.devices = factor;
    EXPECT_NEAR(utilization_of(wider)->mfu.value, 0.5 / static_cast<double>(factor), 1e-12);
  }
}

TEST(Utilization, hardware_flop_and_bytes_have_shares_of_their_own) {
  UtilizationInput input = half_of_an_a100();
  input.work[0].hardware_flop = FlopCount(208'000'000'000'000u);
  input.moved = Bytes{500'000'000'000};
  input.bandwidth = ByteRate{2e12};
  Utilization used = utilization_of(input).value();
  EXPECT_NEAR(used.hfu->value, 2.0 / 3, 1e-12);
  EXPECT_NEAR(used.mbu->value, 0.25, 1e-12);
}

TEST(Utilization, above_the_peak_is_named_and_not_clamped) {
  UtilizationInput input = half_of_an_a100();
  input.duration = std::chrono::milliseconds(250);
  Utilization used = utilization_of(input).value();
  EXPECT_DOUBLE_EQ(used.mfu.value, 2);
  ASSERT_EQ(used.contradictions.size(), 1u);
  EXPECT_EQ(
      used.contradictions[0],
      Note("above_peak", {{"what", "MFU"}, {"fraction", 2.0}, {"suspect", "devices_or_peak"}}));
}

TEST(Utilization, no_time_no_devices_and_no_peak_are_refused) {
  UtilizationInput input = half_of_an_a100();
  input.duration = {};
  EXPECT_FALSE(utilization_of(input).has_value());
  input = half_of_an_a100();
  input.devices = 0;
  EXPECT_FALSE(utilization_of(input).has_value());
  input = half_of_an_a100();
  input.work[0].peak.reset();
  EXPECT_FALSE(utilization_of(input).has_value());
}

// fp32: 8 GFLOP at 100 per second take 80 ms. bf16: 8 at 200 take 40 ms. Together 120 of 400 ms, so
// 30%.
TEST(Utilization, holds_each_type_against_its_own_peak) {
  FlopCount flop = 8'000'000'000u;
  UtilizationInput input{.work = {{.model_flop = flop, .peak = FlopRate{100e9}},
                                  {.model_flop = flop, .peak = FlopRate{200e9}}},
                         .duration = std::chrono::milliseconds(400)};
  Utilization used = utilization_of(input).value();
  EXPECT_NEAR(used.mfu.value, 0.3, 1e-12);
  EXPECT_NEAR(used.by_type[0].value, 0.2, 1e-12);
  EXPECT_NEAR(used.by_type[1].value, 0.1, 1e-12);
  EXPECT_NEAR(used.peak.per_s, 16e9 / 0.12, 1);  // the one peak that gives 30% too
  EXPECT_FALSE(used.hfu);
  EXPECT_TRUE(used.complete);
}

TEST(Utilization, work_without_a_peak_is_left_out_and_said) {
  UtilizationInput input = half_of_an_a100();
  input.work.push_back({.model_flop = 1u});
  Utilization used = utilization_of(input).value();
  EXPECT_DOUBLE_EQ(used.mfu.value, 0.5);
  EXPECT_FALSE(used.complete);
}

TEST(Rating, has_the_documented_bounds) {
  EXPECT_EQ(rating_of({0.5}), Rating::good);
  EXPECT_EQ(rating_of({0.4999}), Rating::fair);
  EXPECT_EQ(rating_of({0.2}), Rating::fair);
  EXPECT_EQ(rating_of({0.1999}), Rating::low);
  EXPECT_EQ(rating_of({0.0999}), Rating::very_low);
}

TEST(PublishedRuns, have_sources_and_the_nearest_in_size_come_first) {
  EXPECT_GT(published_runs().size(), 20u);
  for (const PublishedRun& run : published_runs()) {
    EXPECT_FALSE(run.source.empty());
    EXPECT_GT(run.mfu.value, 0);
    EXPECT_LT(run.mfu.value, 1);
  }
  std::vector<PublishedRun> like = runs_of_like_size(405'000'000'000u, 3);
  ASSERT_FALSE(like.empty());
  EXPECT_NE(like[0].model.find("405B"), std::string::npos);
  EXPECT_TRUE(runs_of_like_size(1000, 3).empty());
}

TEST(Roofline, decode_is_bound_by_memory_until_the_batch_is_large) {
  ModelSpec model = model_of_shape({.layers = 32,
                                    .hidden = 4096,
                                    .heads = 32,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .ffn = 14336,
                                    .vocab = 128256})
                        .value();
  Workload work{.phase = Phase::decode, .batch = 1, .sequence = 1, .context = 16};
  Roofline roof = roofline_of(model, work, {989.4e12}, {3.35e12}).value().value();
  EXPECT_FALSE(roof.compute_bound);
  EXPECT_NEAR(roof.ridge_flop_per_byte, 295.3, 0.1);
  ASSERT_TRUE(roof.compute_from_batch.has_value());
  work.batch = *roof.compute_from_batch;
  EXPECT_TRUE(roofline_of(model, work, {989.4e12}, {3.35e12}).value()->compute_bound);
  work.batch = *roof.compute_from_batch - 1;
  EXPECT_FALSE(roofline_of(model, work, {989.4e12}, {3.35e12}).value()->compute_bound);
}

}  // namespace
}  // namespace mfu
