#include <gtest/gtest.h>

#include "measure/testing.h"
#include "mfu/measure.h"

namespace mfu {
namespace {

FlopCount exact(const StepShape& shape) {
  Workload work{.phase = Phase::train};
  work.sums = LengthSums{shape.sequences, shape.tokens, shape.squares};
  return flop_per_step(small(), work)->model_flop;
}

// Eager attention runs the whole square of every sequence, not only its lower half.
FlopReading eager(std::uint64_t step, const StepShape& shape, bool split) {
  Workload work{.phase = Phase::train};
  work.sums = LengthSums{shape.sequences, shape.tokens, shape.squares};
  FlopNeed need = *flop_per_step(small(), work);
  FlopCount attention = need.by_part[Part::attention_scores];
  // Causal attention has (Σs² + Σs) / 2 pairs, the square has Σs². Whole numbers here are exact.
  Uint128 square = attention.wide() * 2 * shape.squares / (Uint128(shape.squares) + shape.tokens);
  FlopReading reading{.step = step, .shape = shape};
  reading.flop = need.model_flop - attention + FlopCount::from_wide(square);
  if (split) reading.attention_flop = FlopCount::from_wide(square);
  return reading;
}

TEST(Meter, estimates_exactly_what_the_model_needs) {
  FlopMeter meter({.mode = EstimateMode{}, .model = small()});
  StepShape shape{.sequences = 3, .tokens = 10 + 20 + 30, .squares = 100 + 400 + 900};
  Result<MeasuredFlop> found = meter.measure(0, shape, {});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->flop, exact(shape));
  EXPECT_EQ(found->source, Source::estimated);
  EXPECT_FALSE(meter.wants_reading(0, shape));
}

TEST(Meter, profiler_gives_what_was_counted_and_nothing_else) {
  FlopMeter meter({.mode = ProfilerMode{}, .model = small()});
  StepShape shape = StepShape::of(2, 32);
  EXPECT_EQ(meter.measure(0, shape, {}).error().code, ErrorCode::not_found);
  meter.take_reading({.step = 1, .shape = shape, .flop = 12345});
  EXPECT_EQ(meter.measure(1, shape, {})->flop, FlopCount(12345));
  EXPECT_EQ(meter.measure(1, shape, {})->source, Source::counted);
  EXPECT_FALSE(meter.measure(2, shape, {}).has_value());
}

TEST(Meter, another_ranks_count_holds_for_the_same_lengths) {
  FlopMeter meter({.mode = ProfilerMode{}, .model = small()});
  StepShape padded{.sequences = 2, .tokens = 40, .squares = 1000, .padded_length = 32};
  meter.take_reading(
      {.step = 1, .shape = StepShape::of(2, 32), .flop = 12345, .of_another_rank = true});
  EXPECT_TRUE(meter.measure(1, StepShape::of(2, 32), {}).has_value());
  EXPECT_TRUE(meter.measure(1, padded, {}).has_value());  // padding ran too
  EXPECT_FALSE(meter.measure(1, StepShape::of(2, 48), {}).has_value());
}

TEST(Meter, smart_is_within_a_thousandth_at_four_times_the_length) {
  for (bool split : {false, true}) {
    FlopMeter meter({.mode = SmartMode{}, .model = small()});
    StepShape first = StepShape::of(4, 128);
    EXPECT_TRUE(meter.wants_reading(0, first));
    EXPECT_EQ(meter.measure(0, first, {})->source, Source::estimated);
    meter.take_reading(eager(0, first, split));
    EXPECT_EQ(meter.measure(0, first, {})->source, Source::counted);
    for (std::uint64_t length : {32u, 64u, 200u, 512u}) {
      StepShape shape = StepShape::of(4, length);
      Result<MeasuredFlop> found = meter.measure(7, shape, {});
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(found->source, Source::calibrated);
      EXPECT_EQ(found->calibration_age, 7u);
      double truth = eager(7, shape, false).flop.to_double();
      EXPECT_NEAR(found->flop.to_double() / truth, 1, 1e-3) << split << " " << length;
      // A single factor for all lengths would be wrong by more than that, so this test can fail.
      double one_factor = eager(0, first, false).flop.to_double() / exact(first).to_double();
      if (length == 512) {
        EXPECT_GT(std::abs(one_factor * exact(shape).to_double() / truth - 1), 1e-2);
      }
    }
  }
}

TEST(Meter, smart_wants_to_be_calibrated_again_in_time) {
  FlopMeter meter({.mode = SmartMode{.recalibration_frequency = 100}, .model = small()});
  StepShape shape = StepShape::of(4, 128);
  meter.take_reading(eager(5, shape, true));
  EXPECT_FALSE(meter.wants_reading(6, shape));
  EXPECT_FALSE(meter.wants_reading(104, shape));
  EXPECT_TRUE(meter.wants_reading(105, shape));
  EXPECT_TRUE(meter.wants_reading(6, StepShape::of(4, 8192)));
  FlopMeter off({.mode = SmartMode{.calibration_enabled = false}, .model = small()});
  EXPECT_FALSE(off.wants_reading(0, shape));
  FlopMeter later({.mode = SmartMode{.initial_profiling = false}, .model = small()});
  EXPECT_FALSE(later.wants_reading(0, shape));
}

TEST(Meter, smart_follows_a_model_that_changes) {
  FlopMeter meter({.mode = SmartMode{}, .model = small()});
  StepShape shape = StepShape::of(4, 128);
  meter.take_reading({.step = 0, .shape = shape, .flop = exact(shape)});
  FlopReading half{.step = 1, .shape = shape};
  half.flop = FlopCount::from_wide(exact(shape).wide() / 2);  // half of it was frozen
  meter.take_reading(half);
  EXPECT_NEAR(meter.measure(2, shape, {})->flop.to_double() / half.flop.to_double(), 1, 1e-6);
}

TEST(Meter, calibrates_over_the_padding_that_ran) {
  FlopMeter meter({.mode = SmartMode{}, .model = small()});
  StepShape padded{.sequences = 4, .tokens = 300, .squares = 24'000, .padded_length = 128};
  meter.take_reading({.step = 0, .shape = padded, .flop = exact(StepShape::of(4, 128))});
  EXPECT_NEAR(meter.calibration().linear, 1, 1e-9);
}

TEST(Meter, takes_another_ranks_calibration) {
  FlopMeter first({.mode = SmartMode{}, .model = small()});
  FlopMeter second({.mode = SmartMode{}, .model = small()});
  StepShape shape = StepShape::of(4, 128), longer = StepShape::of(2, 300);
  first.take_reading(eager(0, shape, true));
  second.take_calibration(first.calibration());
  EXPECT_EQ(second.measure(1, longer, {})->flop, first.measure(1, longer, {})->flop);
  EXPECT_EQ(second.measure(1, longer, {})->source, Source::calibrated);
}

TEST(Meter, hybrid_takes_hardware_and_falls_back_by_itself) {
  FlopMeter meter({.mode = HybridMode{}, .model = small()});
  StepShape shape = StepShape::of(4, 128);
  Result<MeasuredFlop> without = meter.measure(0, shape, std::chrono::seconds(2));
  EXPECT_EQ(without->source, Source::estimated);
  EXPECT_NE(without->note.find("no hardware counters"), std::string::npos);
  meter.take_reading({.step = 1, .shape = shape, .flop = 777});
  EXPECT_EQ(meter.measure(1, shape, std::chrono::seconds(2))->source, Source::counted);
  meter.take_hardware_rate(FlopRate{1e9});
  Result<MeasuredFlop> with = meter.measure(1, shape, std::chrono::seconds(2));
  EXPECT_EQ(with->source, Source::hardware);
  EXPECT_EQ(with->flop, FlopCount(2'000'000'000));
  meter.take_hardware_rate(fail(ErrorCode::unsupported, "gone"));
  EXPECT_EQ(meter.measure(1, shape, std::chrono::seconds(2))->source, Source::counted);
  FlopMeter strict({.mode = HybridMode{.fallback_to_profiler = false}, .model = small()});
  strict.take_reading({.step = 1, .shape = shape, .flop = 777});
  EXPECT_EQ(strict.measure(1, shape, {})->source, Source::estimated);
}

TEST(Meter, says_what_is_missing) {
  FlopMeter meter({.mode = EstimateMode{}});
  EXPECT_NE(meter.measure(0, StepShape::of(1, 8), {}).error().message.find("config.json"),
            std::string::npos);
  FlopMeter with({.mode = EstimateMode{}, .model = small()});
  EXPECT_NE(with.measure(0, {}, {}).error().message.find("no tokens"), std::string::npos);
}

TEST(Modes, are_parsed_with_near_names) {
  EXPECT_EQ(name_of(*parse_mode("hybrid")), "hybrid");
  EXPECT_NE(parse_mode("samrt").error().message.find("did you mean 'smart'"), std::string::npos);
  EXPECT_EQ(*parse_training_phase("finetune"), TrainingPhase::finetune);
  EXPECT_FALSE(parse_training_phase("").has_value());
}

TEST(Schedule, is_by_phase_unless_fixed_and_zero_is_never) {
  Schedule schedule;
  EXPECT_EQ(schedule.period(TrainingPhase::warmup), 1000u);
  EXPECT_EQ(schedule.period(TrainingPhase::main), 500u);
  EXPECT_EQ(schedule.period(TrainingPhase::finetune), 200u);
  EXPECT_TRUE(schedule.due(1000, TrainingPhase::main));
  EXPECT_FALSE(schedule.due(200, TrainingPhase::main));
  schedule.fixed = 50;
  EXPECT_TRUE(schedule.due(150, TrainingPhase::warmup));
  schedule.fixed = 0;
  for (std::uint64_t step : {0u, 1u, 1000u}) EXPECT_FALSE(schedule.due(step, TrainingPhase::main));
}

}  // namespace
}  // namespace mfu
