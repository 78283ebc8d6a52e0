#include "monitor/share.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "mfu/monitor.h"
#include "monitor/testing.h"

namespace mfu {
namespace {

using std::chrono::seconds;

class ShareTest : public FolderTest {
 protected:
  std::unique_ptr<Monitor> monitor_of(std::uint32_t rank) {
    MonitorOptions options;
    options.config.run_dir = folder_ + "/run";
    options.model_json = kSmallLlama;
    options.peak = FlopRate{1e12};
    options.rank = rank;
    return std::move(Monitor::open(std::move(options), clock_)).value();
  }
  FakeClock clock_;
  Calibration made_{.linear = 1.1,
                    .quadratic = 2,
                    .square = true,
                    .step = 5,
                    .readings = 1,
                    .apart = true,
                    .least_share = 0.1,
                    .most_share = 0.2};
};

TEST_F(ShareTest, others_get_what_rank_zero_made) {
  CalibrationShare first(folder_, 0, clock_), second(folder_, 1, clock_);
  EXPECT_FALSE(second.news());  // there is no file yet
  clock_.advance(seconds(3));
  ASSERT_TRUE(first.publish({}).has_value());
  EXPECT_FALSE(second.news());
  clock_.advance(seconds(3));
  ASSERT_TRUE(first.publish({}).has_value());
  EXPECT_FALSE(second.news());  // alive, but nothing calibrated
  clock_.advance(seconds(3));
  ASSERT_TRUE(first.publish(made_).has_value());
  std::optional<Calibration> got = second.news();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->linear, 1.1);
  EXPECT_EQ(got->quadratic, 2);
  EXPECT_TRUE(got->square && got->apart);
  EXPECT_EQ(got->step, 5u);
  EXPECT_EQ(got->most_share, 0.2);
  clock_.advance(seconds(3));
  ASSERT_TRUE(first.publish(made_).has_value());
  EXPECT_FALSE(second.news());  // the same file again
  EXPECT_FALSE(second.lost());
}

TEST_F(ShareTest, what_an_earlier_run_left_is_no_news) {
  CalibrationShare earlier(folder_, 0, clock_);
  ASSERT_TRUE(earlier.publish(made_).has_value());
  clock_.advance(seconds(100));
  CalibrationShare second(folder_, 1, clock_);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(second.news());
    clock_.advance(seconds(2));
  }
  CalibrationShare first(folder_, 0, clock_);
  ASSERT_TRUE(first.publish(made_).has_value());
  EXPECT_TRUE(second.news());
}

TEST_F(ShareTest, a_silent_rank_zero_is_missed_once) {
  CalibrationShare first(folder_, 0, clock_), second(folder_, 1, clock_), third(folder_, 2, clock_);
  ASSERT_TRUE(first.publish(made_).has_value());
  second.news();
  clock_.advance(CalibrationShare::kSilence - seconds(1));
  EXPECT_FALSE(second.lost());
  clock_.advance(seconds(1));
  EXPECT_FALSE(second.news());
  EXPECT_TRUE(second.lost());
  EXPECT_FALSE(second.lost());
  ASSERT_TRUE(first.publish(made_).has_value());
  third.news();
  clock_.advance(seconds(3));
  ASSERT_TRUE(first.end().has_value());
  EXPECT_TRUE(third.news());
  clock_.advance(10 * CalibrationShare::kSilence);
  EXPECT_FALSE(third.lost());  // rank 0 said goodbye
}

TEST_F(ShareTest, a_file_that_is_no_calibration_is_ignored) {
  CalibrationShare second(folder_, 1, clock_);
  for (const char* text :
       {"", "{", "[]", "{\"schema\":\"x\"}", "{\"schema\":\"mfu.calibration/1\"}"}) {
    ASSERT_TRUE(write_file(folder_ + "/calibration-rank0.json", text).has_value());
    clock_.advance(seconds(3));
    EXPECT_FALSE(second.news());
  }
}

TEST_F(ShareTest, monitors_of_one_run_share_by_the_directory) {
  std::unique_ptr<Monitor> zero = monitor_of(0), one = monitor_of(1);
  EXPECT_TRUE(zero->measurement_due(0));
  EXPECT_FALSE(one->measurement_due(0));  // rank 0 measures
  zero->add_reading({.step = 0,
                     .shape = StepShape::of(4, 128),
                     .flop = 900'000'000,
                     .attention_flop = FlopCount(90'000'000)});
  for (std::uint64_t step = 0; step < 6; ++step) {
    clock_.advance(seconds(3));
    for (Monitor* each : {zero.get(), one.get()}) {
      each->log_step({.step = step, .shape = StepShape::of(4, 128)});
      ASSERT_TRUE(each->flush(seconds(60)));
    }
  }
  std::optional<StepReport> last = one->last_report();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->source, Source::calibrated);
  EXPECT_EQ(last->calibration->linear, zero->calibration().linear);
  EXPECT_EQ(last->flop, zero->last_report()->flop);
  // The run directory has the calibration too, so a replay gives the same.
  one->close();
  bool found = false;
  Result<RecordedSteps> recorded = read_recorded_steps(folder_ + "/run");
  for (const StepReport& each : recorded->reports) {
    found = found || (each.basis->rank == 1u && each.source == Source::calibrated);
  }
  EXPECT_TRUE(found);
}

TEST_F(ShareTest, without_rank_zero_a_monitor_keeps_its_estimate_and_says_so) {
  std::unique_ptr<Monitor> alone = monitor_of(3);
  for (std::uint64_t step = 0; step < 5; ++step) {
    clock_.advance(seconds(30));
    alone->log_step({.step = step, .shape = StepShape::of(4, 128)});
    ASSERT_TRUE(alone->flush(seconds(60)));
  }
  EXPECT_EQ(alone->last_report()->source, Source::estimated);
  ASSERT_EQ(alone->warnings().size(), 1u);
  EXPECT_NE(alone->warnings()[0].find("rank 0"), std::string::npos);
}

TEST_F(ShareTest, a_rank_that_gets_a_calibration_otherwise_does_not_wait_for_rank_zero) {
  std::unique_ptr<Monitor> monitor = monitor_of(3);
  monitor->add_calibration(made_);
  for (std::uint64_t step = 0; step < 5; ++step) {
    clock_.advance(seconds(30));
    monitor->log_step({.step = step, .shape = StepShape::of(4, 128)});
    ASSERT_TRUE(monitor->flush(seconds(60)));
  }
  EXPECT_EQ(monitor->last_report()->source, Source::calibrated);
  EXPECT_TRUE(monitor->warnings().empty()) << monitor->warnings()[0];
}

}  // namespace
}  // namespace mfu
