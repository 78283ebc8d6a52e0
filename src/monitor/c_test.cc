#include "mfu/c.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "base/file.h"

namespace {

TEST(C, logs_steps_and_reads_them_back) {
  std::string folder = testing::TempDir() + "c." + std::to_string(::getpid());
  mfu_options options = mfu_options_unknown();
  options.yaml = "monitoring: {mfu_calculation_mode: profiler, mfu_calculation_freq: 1}";
  options.output_dir = folder.c_str();
  options.peak_flop_per_s = 1e12;
  mfu_monitor* monitor = mfu_monitor_open(&options);
  ASSERT_NE(monitor, nullptr) << mfu_error();
  EXPECT_STREQ(mfu_error(), "");
  mfu_step step = mfu_step_unknown();
  step.step = 7, step.loss = 1.5, step.duration_s = 0.5;
  step.sequences = 8, step.tokens = 1024;
  step.counted_flop_low = 100'000'000'000;  // in half a second, of 1e12: 0.2
  mfu_monitor_count_tokens(monitor, 100);
  mfu_monitor_log_step(monitor, &step);
  ASSERT_EQ(mfu_monitor_flush(monitor, 60), 1);
  mfu_report report = {};
  ASSERT_EQ(mfu_monitor_last_report(monitor, &report), 1);
  EXPECT_EQ(report.step, 7u);
  EXPECT_DOUBLE_EQ(report.mfu, 0.2);
  EXPECT_DOUBLE_EQ(report.tokens_per_s, 2048);
  EXPECT_STREQ(report.source, "counted");
  EXPECT_TRUE(std::isnan(report.generation_mfu));
  EXPECT_NE(std::string(mfu_monitor_last_json(monitor)).find("\"perf/mfu\":0.2"),
            std::string::npos);
  EXPECT_EQ(mfu_monitor_set_phase(monitor, "warmup"), 1);
  EXPECT_EQ(mfu_monitor_set_phase(monitor, "breakfast"), 0);
  EXPECT_NE(std::string(mfu_error()).find("breakfast"), std::string::npos);
  EXPECT_EQ(mfu_monitor_measurement_due(monitor, 1000), 1);
  EXPECT_EQ(mfu_monitor_status(monitor).logged, 1u);
  mfu_monitor_close(monitor);
  EXPECT_NE(mfu::read_file(folder + "/training_log.json")->find("\"step\":7"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(C, says_what_is_wrong_and_takes_nothing) {
  mfu_options options = mfu_options_unknown();
  options.yaml = "monitoring: {flops_profile_frq: 5}";
  EXPECT_EQ(mfu_monitor_open(&options), nullptr);
  EXPECT_NE(std::string(mfu_error()).find("did you mean"), std::string::npos);
  EXPECT_EQ(mfu_monitor_open_yaml("/nowhere.yaml"), nullptr);
  EXPECT_EQ(mfu_monitor_open_yaml(nullptr), nullptr);
  mfu_monitor_log_step(nullptr, nullptr);
  mfu_monitor_count_tokens(nullptr, 1);
  mfu_monitor_close(nullptr);
  EXPECT_EQ(mfu_monitor_last_json(nullptr), nullptr);
  EXPECT_EQ(mfu_monitor_warning(nullptr, 0), nullptr);
  EXPECT_GT(std::string(mfu_version()).size(), 4u);
  mfu_monitor* bare = mfu_monitor_open(nullptr);
  ASSERT_NE(bare, nullptr);
  mfu_monitor_close(bare);
}

}  // namespace
