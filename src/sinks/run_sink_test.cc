#include <gtest/gtest.h>

#include "base/json.h"
#include "mfu/sink.h"

namespace mfu {
namespace {

RunReport example() {
  RunReport report;
  report.run.command = {"python", "train.py"};
  report.run.exit_status = 0;
  report.ranks = 2;
  report.steps = 1200;
  report.step = StepTimes{std::chrono::milliseconds(120), std::chrono::milliseconds(110),
                          std::chrono::milliseconds(130), std::chrono::milliseconds(200)};
  report.flop = CountedFlop{FlopCount(1) * (1ull << 63) * 4, FlopCount(1) * (1ull << 63) * 5, 7};
  report.mfu = report.hfu = Fraction{0.25};
  report.peak = FlopRate{100e9};
  report.peak_source = "made up";
  report.dtype = "bf16";
  report.tokens = 1000;
  report.tokens_per_s = 12345.6;
  for (std::optional<Fraction>& each : report.phase) each = Fraction{0.1};
  report.by_rank.resize(2);
  report.by_rank[1].rank = 1;
  report.slowest_rank = 1;
  return report;
}

TEST(RunJson, has_every_key_also_where_nothing_is_known) {
  for (const RunReport& report : {RunReport(), example()}) {
    Result<Json> json = parse_json(to_json(report), "run");
    ASSERT_TRUE(json.has_value()) << json.error().message;
    for (const char* key : {"schema",
                            "command",
                            "exit_status",
                            "ranks",
                            "steps",
                            "wall_ns",
                            "step_ns",
                            "model_flop",
                            "hardware_flop",
                            "recomputed_flop",
                            "flop_by_operator",
                            "flop_by_dtype",
                            "tokens",
                            "tokens_per_s",
                            "samples",
                            "mfu",
                            "hfu",
                            "mfu_wall",
                            "peak_flop_per_s",
                            "peak_source",
                            "device",
                            "dtype",
                            "source",
                            "data_wait_fraction",
                            "communication_fraction",
                            "optimizer_fraction",
                            "coverage",
                            "by_rank",
                            "notes"}) {
      EXPECT_NE(json->find(key), nullptr) << key;
    }
  }
}

TEST(RunJson, writes_counts_beyond64_bits_in_plain_digits) {
  // 2^65
  EXPECT_NE(to_json(example()).find("\"model_flop\":36893488147419103232,"), std::string::npos);
}

TEST(RunText, says_none_left_out_only_where_that_is_known) {
  RunReport report = example();
  report.complete = true;
  EXPECT_NE(to_text(report, {.width = 200}).find(", none left out"), std::string::npos);
  report.complete.reset();
  report.libraries = {{.name = "deep_gemm", .version = "9.1", .counted = false, .why = "new"}};
  std::string text = to_text(report, {.width = 200});
  EXPECT_EQ(text.find("none left out"), std::string::npos) << text;
  for (const char* part : {"MFU at least 25.0%", "lower bound", "deep_gemm 9.1"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_NE(to_json(report).find("\"complete\":null,\"libraries\":[{\"name\":\"deep_gemm\","
                                 "\"version\":\"9.1\",\"counted\":false,\"why\":\"new\"}]"),
            std::string::npos);
}

TEST(RunText, says_the_number_its_peak_and_the_slow_rank) {
  RunReport report = example();
  report.complete = true;
  std::string text = to_text(report, {.width = 200});
  for (const char* part : {"MFU 25.0%", "fair", "made up", "1,200 steps on 2 ranks", "120 ms",
                           "12,346 tokens/s", "waiting for data 10.0%", "slowest"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(live_line(example()),
            "step 1,200  120 ms  12,346 tokens/s  MFU 25.0%  HFU 25.0%  data wait 10.0%");
}

TEST(ComparisonSink, what_is_not_known_is_null_and_said) {
  ComparisonReport report;
  report.by_step = true;
  report.before_ns = {.value = 100e6};
  report.after_ns = {.value = 80e6, .error = 1e6, .degrees = 9};
  report.gain_fraction = 0.25;
  std::string json = to_json(report), text = to_text(report, {});
  EXPECT_NE(json.find(R"("verdict":null)"), std::string::npos);
  EXPECT_NE(json.find(R"("gain_low_fraction":null)"), std::string::npos);
  EXPECT_NE(json.find(R"("before_range_ns":null)"), std::string::npos);
  EXPECT_NE(json.find(R"("after_range_ns":[77738000,82262000])"), std::string::npos);
  EXPECT_NE(text.find("no verdict"), std::string::npos);
  EXPECT_NE(text.find("80 ms ± 2.26 ms"), std::string::npos);
}

}  // namespace
}  // namespace mfu
