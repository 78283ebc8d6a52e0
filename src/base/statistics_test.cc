#include "mfu/units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace mfu {
namespace {

using Values = std::vector<double>;

// 1, 2, 3, 4: mean 2.5, variance 5/3, error √(5/3/4) = 0.6455, 3 degrees, t = 3.182: 2.5 ± 2.054.
TEST(Statistics, a_mean_and_its_range_by_hand) {
  Estimate mean = mean_of(Values{1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(mean.value, 2.5);
  EXPECT_NEAR(*mean.error, 0.6455, 1e-4);
  EXPECT_EQ(mean.degrees, 3u);
  EXPECT_NEAR(range_of(mean)->low, 2.5 - 2.054, 1e-3);
  EXPECT_NEAR(range_of(mean)->high, 2.5 + 2.054, 1e-3);
}

TEST(Statistics, what_was_measured_once_has_no_range) {
  Estimate once = mean_of(Values{7});
  EXPECT_EQ(once.value, 7);
  EXPECT_FALSE(once.error.has_value());
  EXPECT_FALSE(range_of(once).has_value());
  EXPECT_FALSE(quotient_of(once, mean_of(Values{1, 2})).range.has_value());
  EXPECT_FALSE(differs(once, mean_of(Values{1, 2})).has_value());
}

// 6 tokens in 2 s and 10 in 2 s: 16 in 4 s is 4 a second; batches 3 and 5.
TEST(Statistics, a_ratio_is_of_the_sums) {
  Estimate ratio = ratio_of_sums(Values{6, 10}, Values{2, 2});
  EXPECT_DOUBLE_EQ(ratio.value, 4);
  EXPECT_DOUBLE_EQ(*ratio.error, 1);
}

TEST(Statistics, long_series_are_cut_into_ten_stretches) {
  for (std::size_t count : {10u, 20u, 25u, 99u, 1000u, 123457u}) {
    Estimate mean = mean_of(Values(count, 3.0));
    EXPECT_GE(mean.degrees, 9u) << count;
    EXPECT_LE(mean.degrees, 18u) << count;
    EXPECT_DOUBLE_EQ(mean.value, 3);
    EXPECT_DOUBLE_EQ(*mean.error, 0);
  }
}

// Two levels that alternate every hundred values. A range made from single values would be far too
// narrow.
TEST(Statistics, slow_changes_make_the_range_wider) {
  Values slow, quick;
  for (int i = 0; i < 1000; ++i) {
    slow.push_back(i / 100 % 2 == 0 ? 1 : 2);
    quick.push_back(i % 2 == 0 ? 1 : 2);
  }
  EXPECT_GT(*mean_of(slow).error, 10 * *mean_of(quick).error + 0.1);
}

Values drawn(std::mt19937& generator, std::size_t count, double mean) {
  std::normal_distribution<double> noise(mean, 1);
  Values values(count);
  std::generate(values.begin(), values.end(), [&] { return noise(generator); });
  return values;
}

// Laws, over many series.
TEST(Statistics, a_change_of_unit_changes_the_estimate_alike) {
  std::mt19937 generator(1);
  for (int i = 0; i < 200; ++i) {
    Values a = drawn(generator, 2 + generator() % 200, 10), b = a;
    for (double& each : b) each *= 1000;
    EXPECT_NEAR(mean_of(b).value, 1000 * mean_of(a).value, 1e-6);
    EXPECT_NEAR(*mean_of(b).error, 1000 * *mean_of(a).error, 1e-6);
  }
}

TEST(Statistics, swapping_two_series_inverts_their_quotient_and_its_range) {
  std::mt19937 generator(2);
  for (int i = 0; i < 200; ++i) {
    Estimate a = mean_of(drawn(generator, 2 + generator() % 200, 10));
    Estimate b = mean_of(drawn(generator, 2 + generator() % 200, 12));
    Quotient there = quotient_of(a, b), back = quotient_of(b, a);
    EXPECT_NEAR(there.value * back.value, 1, 1e-9);
    EXPECT_NEAR(there.range->low * back.range->high, 1, 1e-9);
    EXPECT_LE(there.range->low, there.value);
    EXPECT_GE(there.range->high, there.value);
    EXPECT_EQ(differs(a, b), differs(b, a));
  }
}

TEST(Statistics, a_series_does_not_differ_from_itself) {
  std::mt19937 generator(3);
  for (int i = 0; i < 200; ++i) {
    Estimate a = mean_of(drawn(generator, 2 + generator() % 200, 10));
    EXPECT_EQ(differs(a, a), false);
    EXPECT_LE(quotient_of(a, a).range->low, 1);
    EXPECT_GE(quotient_of(a, a).range->high, 1);
  }
}

// 95% of the ranges contain the true value, for short and for long series.
TEST(Statistics, the_range_holds_the_truth_as_often_as_it_says) {
  std::mt19937 generator(4);
  for (std::size_t count : {3u, 8u, 30u, 500u}) {
    int held = 0;
    constexpr int kSeries = 2000;
    for (int i = 0; i < kSeries; ++i) {
      Range range = *range_of(mean_of(drawn(generator, count, 10)));
      held += range.low <= 10 && 10 <= range.high;
    }
    EXPECT_NEAR(held / static_cast<double>(kSeries), 0.95, 0.015) << count;
  }
}

// For pairs of series of the same thing, one in twenty "differs". For correlated series it is not
// many more.
TEST(Statistics, noise_is_seldom_taken_for_a_difference) {
  std::mt19937 generator(5);
  std::normal_distribution<double> noise(0, 1);
  auto wandering = [&] {
    Values values(2000);
    double level = 0;
    for (double& each : values) each = 10 + (level = 0.9 * level + noise(generator));
    return values;
  };
  int plain = 0, correlated = 0;
  constexpr int kSeries = 1000;
  for (int i = 0; i < kSeries; ++i) {
    plain += *differs(mean_of(drawn(generator, 100, 10)), mean_of(drawn(generator, 100, 10)));
    correlated += *differs(mean_of(wandering()), mean_of(wandering()));
  }
  EXPECT_NEAR(plain / static_cast<double>(kSeries), 0.05, 0.025);
  EXPECT_LT(correlated / static_cast<double>(kSeries), 0.10);
}

}  // namespace
}  // namespace mfu
