#include "mfu/units.h"

#include <gtest/gtest.h>

#include <random>

namespace mfu {
namespace {

TEST(FlopCount, counts_beyond_64_bits_in_plain_digits) {
  // 6 x 405e9 parameters x 15.6e12 tokens = 3.7908e25 FLOP
  FlopCount run = FlopCount(6) * 405'000'000'000u * 15'600'000'000'000u;
  EXPECT_EQ(run.to_string(), "37908000000000000000000000");
  EXPECT_EQ(FlopCount(0).to_string(), "0");
  EXPECT_EQ(FlopCount::from_halves(1, 0).to_string(), "18446744073709551616");
}

TEST(FlopCount, saturates_and_says_so_instead_of_wrapping) {
  FlopCount most = FlopCount::from_halves(~0ull, ~0ull);
  EXPECT_TRUE((most + 1u).saturated());
  EXPECT_TRUE((FlopCount::from_halves(1, 0) * FlopCount::from_halves(1, 0)).saturated());
  EXPECT_FALSE((FlopCount::from_halves(1, 0) * 1u).saturated());
}

TEST(FlopCount, agrees_with_64_bit_arithmetic_where_that_fits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::uint64_t a = random() >> 33;
    std::uint64_t b = random() >> 33;
    EXPECT_EQ((FlopCount(a) * b + a).to_string(), std::to_string(a * b + a));
    EXPECT_EQ(FlopCount(a) < FlopCount(b), a < b);
  }
}

TEST(Rates, twice_the_time_is_half_the_rate) {
  using std::chrono::seconds;
  FlopCount work = 989'400'000'000'000u;
  EXPECT_DOUBLE_EQ((work / seconds(1)).per_s, 989.4e12);
  EXPECT_DOUBLE_EQ((work / seconds(2)).per_s, 494.7e12);
  EXPECT_DOUBLE_EQ(((work / seconds(2)) / FlopRate{989.4e12}).value, 0.5);
}

}  // namespace
}  // namespace mfu
