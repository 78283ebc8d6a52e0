#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "mfu/steps.h"

namespace mfu {
namespace {

// Steps around `mean` ms with that much noise and `tokens` each; 10 ms of each step are spent at
// peak.
ComparedSteps steps_around(std::mt19937& generator, double mean, double noise, std::size_t count,
                           double tokens = 1000) {
  std::normal_distribution<double> draw(mean, noise);
  ComparedSteps steps;
  steps.ranks = 1;
  steps.part_names = {"data_wait", "forward_backward_rest"};
  steps.part_ns.resize(2);
  for (std::size_t i = 0; i < count; ++i) {
    double duration = std::max(draw(generator), 0.1) * 1e6;
    steps.duration_ns.push_back(duration);
    steps.tokens.push_back(tokens);
    steps.flop.push_back(1e9 * tokens / 1000);
    steps.peak_ns.push_back(10e6 * tokens / 1000);
    steps.busy_ns.push_back(duration);
    steps.part_ns[0].push_back(duration * 0.25);
    steps.part_ns[1].push_back(duration * 0.75);
  }
  return steps;
}

// 100 ms → 80 ms: 25% more steps in the same time; MFU 10% → 12.5%.
TEST(Comparison, by_hand) {
  ComparedSteps slow, quick;
  slow.duration_ns = {100e6, 100e6, 100e6};
  quick.duration_ns = {80e6, 80e6, 80e6};
  slow.peak_ns = quick.peak_ns = {10e6, 10e6, 10e6};
  slow.busy_ns = slow.duration_ns;
  quick.busy_ns = quick.duration_ns;
  ComparisonReport report = report_comparison(slow, quick, std::nullopt);
  EXPECT_DOUBLE_EQ(report.gain_fraction, 0.25);
  EXPECT_NEAR(report.slower_fraction(), -0.2, 1e-12);
  EXPECT_EQ(report.verdict, Verdict::better);
  EXPECT_FALSE(report.failed);
  EXPECT_DOUBLE_EQ(report.before_mfu->value, 0.1);
  EXPECT_DOUBLE_EQ(report.after_mfu->value, 0.125);
  ComparisonReport back = report_comparison(quick, slow, std::nullopt);
  EXPECT_EQ(back.verdict, Verdict::worse);
  EXPECT_TRUE(back.failed);
  EXPECT_FALSE(report_comparison(quick, slow, 0.3).failed);
  EXPECT_TRUE(report_comparison(quick, slow, 0.2).failed);
}

// A real case: the median step was 8.6% shorter and yet MFU was lower, because a few steps were
// very long.
TEST(Comparison, a_few_long_steps_do_not_make_one_line_better_and_another_worse) {
  ComparedSteps before, after;
  for (int i = 0; i < 40; ++i) {
    before.duration_ns.push_back(100e6);
    after.duration_ns.push_back(i % 10 == 9 ? 400e6 : 91.4e6);
  }
  for (ComparedSteps* each : {&before, &after}) {
    each->peak_ns.assign(40, 12e6);
    each->busy_ns = each->duration_ns;
  }
  ComparisonReport report = report_comparison(before, after, std::nullopt);
  EXPECT_GT(report.after_ns.value, report.before_ns.value);
  EXPECT_LT(report.after_mfu->value, report.before_mfu->value);
  EXPECT_LT(report.gain_fraction, 0);
  EXPECT_NE(report.verdict, Verdict::better);
}

// Law: for the same work, step time, tokens a second, MFU and the gain all point the same way, and
// swapping the two runs gives the opposite verdict.
TEST(Comparison, all_lines_tell_the_same_story) {
  std::mt19937 generator(7);
  for (int i = 0; i < 500; ++i) {
    double mean = 20 + generator() % 100, other = mean * (0.8 + (generator() % 40) / 100.0);
    double noise = (generator() % 20) / 4.0;
    ComparedSteps a = steps_around(generator, mean, noise, 2 + generator() % 100);
    ComparedSteps b = steps_around(generator, other, noise, 2 + generator() % 100);
    ComparisonReport there = report_comparison(a, b, std::nullopt);
    ComparisonReport back = report_comparison(b, a, std::nullopt);
    double faster = there.before_ns.value - there.after_ns.value;
    auto agrees = [&](double change) { return change * faster >= 0; };
    EXPECT_TRUE(agrees(there.after_mfu->value - there.before_mfu->value));
    EXPECT_TRUE(agrees(there.after_tokens_per_s->value - there.before_tokens_per_s->value));
    EXPECT_TRUE(agrees(there.gain_fraction));
    EXPECT_TRUE(there.verdict != Verdict::better || faster > 0);
    EXPECT_TRUE(there.verdict != Verdict::worse || faster < 0);
    bool mirrored = (there.verdict == Verdict::better) == (back.verdict == Verdict::worse) &&
                    (there.verdict == Verdict::worse) == (back.verdict == Verdict::better);
    EXPECT_TRUE(mirrored);
    double sum = 0;
    for (const ComparisonRow& row : there.rows) sum += row.after_ns.value;
    EXPECT_NEAR(sum, there.after_ns.value, 1);
  }
}

TEST(Comparison, two_runs_of_the_same_program_are_the_same) {
  std::mt19937 generator(8);
  int judged = 0;
  constexpr int kPairs = 400;
  for (int i = 0; i < kPairs; ++i) {
    ComparisonReport report = report_comparison(steps_around(generator, 100, 5, 60),
                                                steps_around(generator, 100, 5, 60), std::nullopt);
    judged += report.verdict != Verdict::same;
  }
  EXPECT_LT(judged, kPairs / 12);
}

TEST(Comparison, a_change_larger_than_the_noise_is_found) {
  std::mt19937 generator(9);
  for (int i = 0; i < 100; ++i) {
    ComparisonReport report = report_comparison(steps_around(generator, 100, 5, 60),
                                                steps_around(generator, 90, 5, 60), std::nullopt);
    EXPECT_EQ(report.verdict, Verdict::better);
    EXPECT_GT(report.gain_range->low, 0);
  }
}

TEST(Comparison, less_than_a_hundredth_is_no_verdict_however_sure) {
  std::mt19937 generator(10);
  ComparisonReport report =
      report_comparison(steps_around(generator, 100, 0.01, 500),
                        steps_around(generator, 100.5, 0.01, 500), std::nullopt);
  EXPECT_LT(report.gain_range->high, 0);
  EXPECT_EQ(report.verdict, Verdict::same);
}

TEST(Comparison, half_the_batch_is_not_twice_as_fast) {
  std::mt19937 generator(11);
  ComparisonReport report = report_comparison(steps_around(generator, 100, 1, 50, 2000),
                                              steps_around(generator, 60, 1, 50, 1000), {});
  EXPECT_EQ(report.unit, "token");
  EXPECT_EQ(report.verdict, Verdict::worse);  // 50 µs a token before, 60 after
  ASSERT_FALSE(report.notes.empty());
  EXPECT_EQ(report.notes[0], Note("tokens_differ", {{"before", 2000.0}, {"after", 1000.0}}));
}

TEST(Comparison, one_step_is_compared_without_a_verdict) {
  std::mt19937 generator(12);
  ComparisonReport report = report_comparison(steps_around(generator, 100, 1, 1),
                                              steps_around(generator, 50, 1, 30), 0.05);
  EXPECT_FALSE(report.verdict.has_value());
  EXPECT_FALSE(report.gain_range.has_value());
  EXPECT_FALSE(report.failed);
}

TEST(Comparison, noise_does_not_fail_a_threshold) {
  std::mt19937 generator(13);
  ComparedSteps before = steps_around(generator, 100, 40, 12);
  ComparedSteps after = steps_around(generator, 108, 40, 12);
  ComparisonReport report = report_comparison(before, after, 0.001);
  EXPECT_EQ(report.failed, report.verdict == Verdict::worse);
}

StepReport logged(std::uint64_t step, std::uint32_t rank, double ms, std::uint64_t tokens) {
  auto basis = std::make_shared<UtilizationBasis>();
  basis->peak = FlopRate{1e12};
  basis->rank = rank;
  StepInput input{.step = step};
  input.duration = std::chrono::nanoseconds(static_cast<std::int64_t>(ms * 1e6));
  input.tokens = tokens;
  input.flop = MeasuredFlop{.flop = FlopCount(1'000'000'000), .source = Source::counted};
  return report_step(input, basis);
}

// What a monitor logged: two ranks, each with a first step far longer than the rest.
TEST(Comparison, takes_the_steps_of_a_monitor) {
  std::vector<StepReport> reports;
  for (std::uint32_t rank : {0u, 1u}) {
    for (std::uint64_t i = 0; i < 10; ++i) {
      reports.push_back(logged(i, rank, i == 0 ? 500 : 10 + rank, 64));
    }
  }
  Result<ComparedSteps> steps = compared_steps(reports);
  ASSERT_TRUE(steps.has_value());
  EXPECT_EQ(steps->ranks, 2u);
  EXPECT_EQ(steps->warmup, 1u);
  ASSERT_EQ(steps->duration_ns.size(), 9u);
  EXPECT_NEAR(steps->duration_ns[0], 10.5e6, 1);
  EXPECT_NEAR(steps->tokens[0], 128, 1e-6);
  // 1 GFLOP at 1 TFLOP/s is 1 ms: 2 ms of both, over 2 × 10.5 ms.
  EXPECT_NEAR(steps->peak_ns[0] / steps->busy_ns[0], 2 / 21.0, 1e-9);
  EXPECT_FALSE(compared_steps(std::vector<StepReport>()).has_value());
}

}  // namespace
}  // namespace mfu
