#include "monitor/pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "measure/testing.h"

namespace mfu {
namespace {

class Pipeline : public testing::Test {
 protected:
  Pipeline() { options_.basis.peak = FlopRate{1e12}; }

  StepPipeline make(Mode mode) {
    options_.meter = {.mode = std::move(mode), .model = small()};
    return {options_, [this](std::string text) { warnings_.push_back(std::move(text)); }};
  }
  // Step n ends at n seconds.
  static LoggedStep step(std::uint64_t number) {
    LoggedStep logged;
    logged.kind = LoggedKind::step;
    logged.step = number;
    logged.end_ns = static_cast<std::int64_t>(number) * 1'000'000'000;
    keep_shape(logged, StepShape::of(4, 128));
    return logged;
  }
  bool warned(std::string_view text) const {
    for (const std::string& warning : warnings_) {
      if (warning.find(text) != std::string::npos) return true;
    }
    return false;
  }
  PipelineOptions options_;
  std::vector<std::string> warnings_;
};

TEST_F(Pipeline, measures_from_one_step_to_the_next) {
  StepPipeline pipeline = make(EstimateMode{});
  EXPECT_FALSE(pipeline.take(step(1))->value("perf/step_time").has_value());
  std::optional<StepReport> second = pipeline.take(step(2));
  EXPECT_EQ(second->value("perf/step_time"), 1.0);
  EXPECT_EQ(second->value("perf/tokens_per_second"), 512.0);
  EXPECT_EQ(second->value("perf/samples_per_second"), 4.0);
  double flop = flop_per_step(small(), {.batch = 4, .sequence = 128})->model_flop.to_double();
  EXPECT_DOUBLE_EQ(*second->value("perf/mfu"), flop / 1e12);
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

TEST_F(Pipeline, leaves_out_what_a_bad_time_would_make_and_says_so_once) {
  StepPipeline pipeline = make(EstimateMode{});
  std::uint64_t number = 1;
  for (double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                     std::numeric_limits<double>::infinity(), 1e300}) {
    LoggedStep logged = step(number++);
    logged.has = has_duration | has_loss;
    logged.duration_s = bad;
    logged.of.loss = 3;
    std::optional<StepReport> report = pipeline.take(logged);
    EXPECT_TRUE(report->metrics.empty()) << bad;
    EXPECT_EQ(report->loss, 3.0);
  }
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(warned("seconds"));
}

TEST_F(Pipeline, steps_that_go_back_have_no_time) {
  StepPipeline pipeline = make(EstimateMode{});
  pipeline.take(step(5));
  EXPECT_TRUE(pipeline.take(step(3))->metrics.empty());
  EXPECT_TRUE(pipeline.take(step(3))->metrics.empty());
  EXPECT_EQ(pipeline.take(step(4))->value("perf/step_time"), 1.0);
  EXPECT_EQ(warnings_.size(), 1u);
  LoggedStep stuck = step(6);
  stuck.end_ns = step(4).end_ns;
  EXPECT_TRUE(pipeline.take(stuck)->metrics.empty());
  EXPECT_TRUE(warned("where it ends"));
}

TEST_F(Pipeline, values_that_are_not_numbers_are_left_out) {
  StepPipeline pipeline = make(EstimateMode{});
  LoggedStep logged = step(1);
  logged.has = has_loss | has_grad_norm | has_learning_rate;
  logged.of.loss = std::nan("");
  logged.of.grad_norm = std::numeric_limits<double>::infinity();
  logged.of.learning_rate = 1e-3;
  std::optional<StepReport> report = pipeline.take(logged);
  EXPECT_FALSE(report->loss.has_value());
  EXPECT_FALSE(report->grad_norm.has_value());
  EXPECT_EQ(report->learning_rate, 1e-3);
  EXPECT_EQ(warnings_.size(), 2u);
}

TEST_F(Pipeline, shapes_that_cannot_be_are_said) {
  struct Case {
    StepShape shape;
    const char* said;
  };
  for (const Case& bad :
       {Case{{}, "no tokens"}, Case{{.sequences = 4, .tokens = 3, .squares = 3}, "cannot be"},
        Case{{.sequences = 2, .tokens = 100, .squares = 10}, "cannot be"},
        Case{{.sequences = 2, .tokens = 100, .squares = 20'000}, "cannot be"},
        Case{{.sequences = 2, .tokens = 100, .squares = 5000, .padded_length = 9}, "cannot be"}}) {
    warnings_.clear();
    StepPipeline pipeline = make(EstimateMode{});
    pipeline.take(step(1));
    LoggedStep logged = step(2);
    keep_shape(logged, bad.shape);
    std::optional<StepReport> report = pipeline.take(logged);
    EXPECT_FALSE(report->value("perf/mfu").has_value());
    EXPECT_FALSE(report->value("perf/tokens_per_second").has_value());
    EXPECT_TRUE(report->value("perf/step_time").has_value());
    EXPECT_TRUE(warned(bad.said)) << bad.said;
  }
}

TEST_F(Pipeline, without_squares_lengths_are_equal) {
  StepPipeline pipeline = make(EstimateMode{});
  pipeline.take(step(1));
  LoggedStep logged = step(2);
  logged.squares = 0;
  EXPECT_EQ(pipeline.take(logged)->flop,
            flop_per_step(small(), {.batch = 4, .sequence = 128})->model_flop);
}

TEST_F(Pipeline, readings_calibrate_what_follows) {
  StepPipeline pipeline = make(SmartMode{});
  EXPECT_TRUE(pipeline.wants_reading(0));
  FlopCount twice = flop_per_step(small(), {.batch = 4, .sequence = 128})->model_flop * 2u;
  EXPECT_FALSE(
      pipeline.take(logged_reading({.step = 1, .shape = StepShape::of(4, 128), .flop = twice}))
          .has_value());
  EXPECT_EQ(pipeline.take(step(1))->source, Source::counted);
  std::optional<StepReport> next = pipeline.take(step(2));
  EXPECT_EQ(next->source, Source::calibrated);
  EXPECT_EQ(next->calibration_age, 1u);
  EXPECT_EQ(next->flop, twice);
  EXPECT_FALSE(pipeline.wants_reading(3));
}

TEST_F(Pipeline, what_is_kept_beside_steps_reads_back_the_same) {
  StepPipeline first = make(SmartMode{}), second = make(SmartMode{});
  FlopReading reading{.step = 1, .shape = StepShape::of(4, 128), .flop = 50'000'000'000u};
  reading.attention_flop = 7'000'000'000u;
  first.take(logged_reading(reading));
  second.take(logged_calibration(first.calibration()));
  EXPECT_EQ(second.calibration().linear, first.calibration().linear);
  EXPECT_EQ(second.calibration().quadratic, first.calibration().quadratic);
  EXPECT_EQ(second.calibration().apart, first.calibration().apart);
  EXPECT_EQ(second.calibration().square, first.calibration().square);
  second.take(logged_calibration({.linear = std::nan("")}));
  EXPECT_TRUE(warned("calibration"));
  EXPECT_EQ(second.calibration().linear, first.calibration().linear);
}

TEST_F(Pipeline, a_period_of_generation_is_in_the_next_report) {
  StepPipeline pipeline = make(EstimateMode{});
  pipeline.take(logged_period({.elapsed = std::chrono::seconds(2), .generated = 100}));
  std::optional<StepReport> report = pipeline.take(step(1));
  EXPECT_EQ(report->value("mfu/tokens_per_second"), 50.0);
  EXPECT_EQ(report->value("mfu/elapsed_time"), 2.0);
  EXPECT_FALSE(pipeline.take(step(2))->value("mfu/tokens_per_second").has_value());
}

TEST_F(Pipeline, counted_nothing_is_a_warning_not_a_number) {
  StepPipeline pipeline = make(ProfilerMode{});
  LoggedStep logged = step(1);
  logged.has = has_flop;
  EXPECT_FALSE(pipeline.take(logged)->source.has_value());
  EXPECT_TRUE(warned("0 FLOP"));
}

TEST_F(Pipeline, without_a_peak_it_says_what_to_give) {
  options_.basis.peak.reset();
  StepPipeline pipeline = make(EstimateMode{});
  pipeline.take(step(1));
  EXPECT_FALSE(pipeline.take(step(2))->value("perf/mfu").has_value());
  EXPECT_TRUE(warned("peak"));
}

}  // namespace
}  // namespace mfu
