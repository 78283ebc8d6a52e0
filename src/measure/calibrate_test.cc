#include "measure/calibrate.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

// A step of n tokens costs 1000 FLOP for each token and 2 for each pair. n(n+1)/2 pairs attend; the
// whole square has n².
FlopTerms terms(double n) {
  return {.linear = 1000 * n, .attended = n * (n + 1), .square = 2 * n * n};
}

CalibrationPoint point(double n, double linear, double quadratic, bool square, bool split) {
  FlopTerms of = terms(n);
  double attention = quadratic * (square ? of.square : of.attended);
  CalibrationPoint made{.step = 3, .terms = of, .measured = linear * of.linear + attention};
  if (split) made.measured_attention = attention;
  return made;
}

double truth(double n, double linear, double quadratic, bool square) {
  return point(n, linear, quadratic, square, false).measured;
}

TEST(Calibrate, one_reading_that_tells_attention_apart_fits_every_length) {
  for (bool square : {false, true}) {
    for (double quadratic : {1.0, 14.0 / 12}) {
      for (double linear : {1.0, 0.83, 1.25}) {
        CalibrationPoint one = point(128, linear, quadratic, square, true);
        Calibration found = calibrate(std::span(&one, 1));
        EXPECT_TRUE(found.apart);
        for (double n : {64.0, 128.0, 512.0, 4096.0}) {
          EXPECT_NEAR(calibrated_flop(found, terms(n)) / truth(n, linear, quadratic, square), 1,
                      1e-9)
              << square << quadratic << linear << n;
        }
      }
    }
  }
}

TEST(Calibrate, one_total_is_explained_by_the_known_ways_to_run_attention) {
  // The linear terms are as estimated, but attention ran over the whole square.
  CalibrationPoint one = point(128, 1, 1, true, false);
  Calibration found = calibrate(std::span(&one, 1));
  EXPECT_TRUE(found.apart);
  EXPECT_TRUE(found.square);
  EXPECT_NEAR(calibrated_flop(found, terms(512)) / truth(512, 1, 1, true), 1, 1e-9);
}

TEST(Calibrate, one_total_that_nothing_explains_is_one_factor_and_wants_another) {
  CalibrationPoint one = point(128, 1.3, 0.7, false, false);
  Calibration found = calibrate(std::span(&one, 1));
  EXPECT_FALSE(found.apart);
  EXPECT_DOUBLE_EQ(found.linear, found.quadratic);
  EXPECT_NEAR(calibrated_flop(found, terms(128)), one.measured, 1e-6);
  EXPECT_FALSE(leaves(found, terms(128)));
  EXPECT_TRUE(leaves(found, terms(512)));
}

TEST(Calibrate, two_totals_of_unlike_shapes_fix_both_terms) {
  for (bool square : {false, true}) {
    std::vector<CalibrationPoint> two = {point(128, 1.3, 0.7, square, false),
                                         point(512, 1.3, 0.7, square, false)};
    Calibration found = calibrate(two);
    EXPECT_TRUE(found.apart);
    EXPECT_NEAR(calibrated_flop(found, terms(2048)) / truth(2048, 1.3, 0.7, square), 1, 1e-6);
    EXPECT_FALSE(leaves(found, terms(256)));
  }
}

TEST(Calibrate, covers_what_it_saw_and_says_what_it_did_not) {
  CalibrationPoint one = point(128, 1, 1, false, true);
  Calibration found = calibrate(std::span(&one, 1));
  EXPECT_EQ(found.step, 3u);
  EXPECT_EQ(found.readings, 1u);
  EXPECT_FALSE(leaves(found, terms(512)));
  EXPECT_TRUE(leaves(found, terms(100'000)));
}

}  // namespace
}  // namespace mfu
