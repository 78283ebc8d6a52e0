#include "mfu/steps.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mfu {
namespace {

using std::chrono::milliseconds;

std::shared_ptr<UtilizationBasis> basis() {
  return std::make_shared<UtilizationBasis>(UtilizationBasis{
      .precision = Precision::bf16, .peak = FlopRate{1e12}, .peak_source = "given", .devices = 2});
}

TEST(StepReport, works_every_documented_number_out) {
  // 5e11 FLOP in 0.5 s are 1e12 per second, which is half of 2 × 1e12.
  StepInput input{.step = 9, .loss = 2.5, .duration = milliseconds(500), .tokens = 4096};
  input.samples = 8;
  input.flop = MeasuredFlop{.flop = 500'000'000'000u, .source = Source::counted};
  StepReport report = report_step(input, basis());
  EXPECT_DOUBLE_EQ(*report.value("perf/mfu"), 0.5);
  EXPECT_DOUBLE_EQ(*report.value("perf/mfu_percent"), 50);
  EXPECT_DOUBLE_EQ(*report.value("perf/step_time"), 0.5);
  EXPECT_DOUBLE_EQ(*report.value("perf/steps_per_second"), 2);
  EXPECT_DOUBLE_EQ(*report.value("perf/tokens_per_second"), 8192);
  EXPECT_DOUBLE_EQ(*report.value("perf/samples_per_second"), 16);
  EXPECT_EQ(report.source, Source::counted);
  EXPECT_TRUE(report.contradictions.empty());
}

TEST(StepReport, leaves_out_what_is_not_known_unless_zero_is_asked_for) {
  StepInput input{.step = 1, .duration = milliseconds(500)};
  EXPECT_FALSE(report_step(input, basis()).value("perf/mfu").has_value());
  EXPECT_FALSE(report_step(input, basis()).value("perf/tokens_per_second").has_value());
  auto zero = basis();
  zero->zero_where_unmeasured = true;
  EXPECT_EQ(report_step(input, zero).value("perf/mfu"), 0.0);
  auto unknown = basis();
  unknown->peak.reset();
  input.flop = MeasuredFlop{.flop = 1};
  EXPECT_FALSE(report_step(input, unknown).value("perf/mfu").has_value());
  input.duration.reset();
  EXPECT_TRUE(report_step(input, basis()).metrics.empty());
}

TEST(StepReport, is_never_clamped_and_names_the_suspect) {
  StepInput input{.step = 1, .duration = milliseconds(500)};
  input.flop = MeasuredFlop{.flop = 4'000'000'000'000u};
  StepReport report = report_step(input, basis());
  EXPECT_DOUBLE_EQ(*report.value("perf/mfu"), 4);
  ASSERT_EQ(report.contradictions.size(), 1u);
}

TEST(StepReport, has_the_five_metrics_of_generation) {
  auto document = std::make_shared<UtilizationBasis>(
      UtilizationBasis{.peak = FlopRate{312e12}, .bandwidth = ByteRate{2e12}});
  StepInput input{.step = 10};
  input.generation = GenerationUse{.tokens_per_s = 150.5,
                                   .tokens = 1505,
                                   .elapsed = std::chrono::seconds(10),
                                   .flop_per_token = 14e9,
                                   .flop = FlopCount(14'000'000'000u) * 1505u,
                                   .moved = Bytes{10'000'000'000'000u}};
  StepReport report = report_step(input, document);
  EXPECT_DOUBLE_EQ(*report.value("mfu/tokens_per_second"), 150.5);
  EXPECT_DOUBLE_EQ(*report.value("mfu/flops_per_token"), 14e9);
  EXPECT_DOUBLE_EQ(*report.value("mfu/total_tokens_generated"), 1505);
  EXPECT_DOUBLE_EQ(*report.value("mfu/elapsed_time"), 10);
  // 14e9 × 150.5 / 312e12 = 0.675 %.
  EXPECT_NEAR(*report.value("mfu/mfu_percentage"), 0.6753, 1e-4);
  // 1e13 bytes in 10 s at 2e12 per second are a half.
  EXPECT_DOUBLE_EQ(*report.value("mfu/mbu_percentage"), 50);
  for (const StepMetric& metric : report.metrics) {
    const auto& names = step_metric_names();
    EXPECT_NE(std::find(names.begin(), names.end(), metric.name), names.end());
  }
}

TEST(StepReport, twice_the_time_is_half_the_utilization) {
  for (int i = 1; i < 200; ++i) {
    StepInput once{.step = 1, .duration = milliseconds(i)};
    once.flop = MeasuredFlop{.flop = static_cast<std::uint64_t>(i * i) * 1'000'000u};
    StepInput twice = once;
    twice.duration = milliseconds(2 * i);
    EXPECT_NEAR(*report_step(once, basis()).value("perf/mfu"),
                2 * *report_step(twice, basis()).value("perf/mfu"), 1e-15);
  }
}

}  // namespace
}  // namespace mfu
