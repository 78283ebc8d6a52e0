#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "mfu/run.h"
#include "report/run_steps.h"

namespace mfu {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A processor of 100 GFLOP/s in fp32 and 200 in bf16, to reckon by hand.
Device hand_made() {
  Device device;
  device.name = "hand-made";
  device.kind = "cpu";
  device.peaks = {{.precision = Precision::fp32, .rate = {100e9}, .source = "made up"},
                  {.precision = Precision::bf16, .rate = {200e9}, .source = "made up"}};
  return device;
}

RunQuestion asked() {
  RunQuestion question;
  question.device.name = "hand-made";
  question.device.device = hand_made();
  return question;
}

bool says(const RunReport& report, std::string_view text) {
  return std::any_of(report.notes.begin(), report.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

struct StepShape {
  int count = 5;
  milliseconds duration{100};
  std::uint64_t flop = 2'000'000'000;  // model; 2 GFLOP in 0.1 s: 20 GFLOP/s
  std::uint64_t recomputed = 0;
  std::string type = "fp32";
  milliseconds communication{0}, data_wait{0};
};

ProcessRecord process_of(const StepShape& shape, std::optional<std::uint32_t> rank = std::nullopt) {
  ProcessRecord process;
  process.host = "here";
  process.pid = 100 + rank.value_or(0);
  process.rank = rank;
  CountedFlop each{shape.flop, FlopCount(shape.flop) + shape.recomputed, shape.recomputed};
  nanoseconds now{0};
  OperatorTotal total{.name = "aten::mm", .type = shape.type, .reason = ""};
  for (int i = 0; i < shape.count; ++i) {
    Step step;
    step.sequence = step.index = static_cast<std::uint64_t>(i);
    step.start = now;
    step.end = now += shape.duration;
    step.flop = {{shape.type, each}};
    step.tokens = 1000;
    step.samples = 4;
    step.phase[0] = shape.data_wait;
    step.phase[2] = shape.communication;
    process.steps.push_back(step);
    total.calls += 3;
    total.flop.model_flop += each.model_flop;
    total.flop.hardware_flop += each.hardware_flop;
    total.flop.recomputed_flop += each.recomputed_flop;
    process.tokens += step.tokens;
    process.samples += step.samples;
  }
  process.token_rows = 50257;
  process.last = now;
  process.totals = {total};
  return process;
}

RunRecord run_of(std::vector<ProcessRecord> processes) {
  RunRecord record;
  record.run.command = {"python", "train.py"};
  record.run.exit_status = 0;
  record.run.started = nanoseconds(0);
  record.run.ended = std::chrono::seconds(1);
  record.processes = std::move(processes);
  return record;
}

// 4 steps after one of warm-up: 8 GFLOP in 0.4 s = 20 GFLOP/s of 100 = 20%. The whole run: 10 GFLOP
// in 1 s = 10%.
TEST(RunReport, DividesModelFlopByTimeAndPeak) {
  RunReport report = report_run(run_of({process_of({})}), asked());
  EXPECT_EQ(report.ranks, 1u);
  EXPECT_EQ(report.steps, 5u);
  EXPECT_EQ(report.warmup, 1u);
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.2);
  EXPECT_DOUBLE_EQ(report.mfu_wall->value, 0.1);
  EXPECT_EQ(report.flop->model_flop, 10'000'000'000u);
  EXPECT_EQ(report.step->median, milliseconds(100));
  EXPECT_EQ(report.tokens, 5000u);
  EXPECT_EQ(report.samples, 20u);
  EXPECT_DOUBLE_EQ(*report.tokens_per_s, 10000);
  EXPECT_EQ(report.counted_calls, 15u);
}

TEST(RunReport, PartsRecomputationFromTheModel) {
  RunReport report = report_run(run_of({process_of({.recomputed = 1'000'000'000})}), asked());
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.2);
  EXPECT_DOUBLE_EQ(report.hfu->value, 0.3);
  EXPECT_EQ(report.flop->recomputed_flop, 5'000'000'000u);
}

TEST(RunReport, GivesHalfTheUtilizationForTwiceTheTime) {
  for (int duration : {1, 7, 100, 333}) {
    StepShape once{.duration = milliseconds(duration)};
    StepShape twice{.duration = milliseconds(2 * duration)};
    double fast = report_run(run_of({process_of(once)}), asked()).mfu->value;
    double slow = report_run(run_of({process_of(twice)}), asked()).mfu->value;
    EXPECT_DOUBLE_EQ(fast, 2 * slow);
  }
}

// Two ranks on one processor: 2 × 8 GFLOP in the same 0.4 s: 40%.
TEST(RunReport, TakesRanksOnOneProcessorForOneDevice) {
  RunReport report = report_run(run_of({process_of({}, 0), process_of({}, 1)}), asked());
  EXPECT_EQ(report.ranks, 2u);
  EXPECT_EQ(report.steps, 5u);
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.4);
  EXPECT_DOUBLE_EQ(*report.tokens_per_s, 20000);
}

// Two GPUs: 2 × 8 GFLOP, 2 × 0.4 s: 20%.
TEST(RunReport, TakesRanksOnGpusOfTheirOwnForADeviceEach) {
  std::vector<ProcessRecord> ranks = {process_of({}, 0), process_of({}, 1)};
  for (ProcessRecord& each : ranks) each.facts = {{"device", "cuda:0 NVIDIA H100 80GB HBM3"}};
  RunQuestion question = asked();
  question.device.devices = 2;
  EXPECT_DOUBLE_EQ(report_run(run_of(ranks), question).mfu->value, 0.2);
  auto device = device_of_run(run_of(ranks), Catalog::builtin(), "");
  ASSERT_TRUE(device.has_value());
  EXPECT_EQ(device->devices, 2u);
  EXPECT_TRUE(device->device.has_value());
}

TEST(RunReport, IsTheSameForRanksInAnyOrder) {
  std::vector<ProcessRecord> ranks;
  for (unsigned i = 0; i < 6; ++i) {
    ranks.push_back(process_of({.count = 5 + static_cast<int>(i),
                                .duration = milliseconds(90 + i),
                                .communication = milliseconds(7 * i)},
                               i));
  }
  RunReport first = report_run(run_of(ranks), asked());
  std::mt19937 random(1);
  for (int i = 0; i < 10; ++i) {
    std::shuffle(ranks.begin(), ranks.end(), random);
    RunReport other = report_run(run_of(ranks), asked());
    EXPECT_EQ(first.mfu, other.mfu);
    EXPECT_EQ(first.slowest_rank, other.slowest_rank);
    EXPECT_EQ(first.step->p99, other.step->p99);
    EXPECT_EQ(first.flop->hardware_flop, other.flop->hardware_flop);
  }
}

// fp32: 8 GFLOP of 100 = 80 ms at peak; bf16: 8 of 200 = 40 ms; together 120 of 400 ms: 30%.
TEST(RunReport, AddsTypesUpByTheirOwnPeaks) {
  ProcessRecord mixed = process_of({});
  for (Step& step : mixed.steps) step.flop.push_back({"bf16", step.flop[0].flop});
  OperatorTotal bf16 = mixed.totals[0];
  bf16.type = "bf16";
  mixed.totals.push_back(bf16);
  RunReport report = report_run(run_of({mixed}), asked());
  EXPECT_NEAR(report.mfu->value, 0.3, 1e-12);
  EXPECT_EQ(report.by_type.size(), 2u);
}

TEST(RunReport, HoldsATypeWithoutAUnitAgainstWhatItIsComputedIn) {
  RunReport report = report_run(run_of({process_of({.type = "fp16"})}), asked());
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.2);  // against fp32
  EXPECT_EQ(report.by_type[0].against, "fp32");
  EXPECT_TRUE(says(report, "fp16 matmuls are held against the fp32 peak"));
}

TEST(RunReport, NamesTheRankThatKeepsTheOthersWaiting) {
  // In lockstep every step takes 100 ms; rank 1 waits for nobody.
  std::vector<ProcessRecord> ranks = {process_of({.communication = milliseconds(60)}, 0),
                                      process_of({.communication = milliseconds(5)}, 1),
                                      process_of({.communication = milliseconds(61)}, 2)};
  RunReport report = report_run(run_of(ranks), asked());
  EXPECT_EQ(report.slowest_rank, 1u);
  ASSERT_FALSE(report.suggestions.empty());
  EXPECT_NE(report.suggestions[0].title.find("rank 1 is slow"), std::string::npos);
  // Alike: none is named.
  for (ProcessRecord& each : ranks)
    each = process_of({.communication = milliseconds(5)}, each.rank);
  EXPECT_FALSE(report_run(run_of(ranks), asked()).slowest_rank.has_value());
}

TEST(RunReport, SuggestsFirstWhatWinsMost) {
  RunReport report = report_run(
      run_of({process_of({.communication = milliseconds(15), .data_wait = milliseconds(40)})}),
      asked());
  ASSERT_GE(report.suggestions.size(), 2u);
  EXPECT_EQ(report.suggestions[0].cause, "data_loading");
  EXPECT_DOUBLE_EQ(report.suggestions[0].gain_ceiling_mfu->value, 0.2 / 0.6);
  EXPECT_DOUBLE_EQ(report.phase[0]->value, 0.4);
}

TEST(RunReport, LeavesOutSlowFirstStepsAndSaysSo) {
  ProcessRecord process = process_of({.count = 20});
  for (int i = 0; i < 3; ++i) process.steps[i].start -= std::chrono::seconds(3 - i);
  RunReport report = report_run(run_of({process}), asked());
  EXPECT_EQ(report.warmup, 3u);
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.2);
  EXPECT_TRUE(says(report, "warm-up: the first 3 steps"));
  RunQuestion question = asked();
  question.warmup = 7;
  EXPECT_EQ(report_run(run_of({process}), question).warmup, 7u);
}

TEST(RunReport, SaysWhatItDoesNotKnow) {
  RunReport report = report_run(run_of({}), asked());
  EXPECT_FALSE(report.flop.has_value());
  EXPECT_FALSE(report.mfu.has_value());
  EXPECT_TRUE(says(report, "no process of this command imported torch"));
  // Steps, and no device: counts, no MFU.
  RunQuestion question;
  report = report_run(run_of({process_of({})}), question);
  EXPECT_TRUE(report.flop.has_value());
  EXPECT_FALSE(report.mfu.has_value());
  // Counts, and no step: MFU of the whole run only.
  ProcessRecord stepless = process_of({});
  stepless.steps.clear();
  report = report_run(run_of({stepless}), asked());
  EXPECT_FALSE(report.mfu.has_value());
  EXPECT_DOUBLE_EQ(report.mfu_wall->value, 0.1);
}

TEST(RunReport, NeverClampsWhatCannotBe) {
  RunReport report = report_run(run_of({process_of({.flop = 90'000'000'000})}), asked());
  EXPECT_DOUBLE_EQ(report.mfu->value, 9);
  ASSERT_FALSE(report.contradictions.empty());
}

TEST(RunReport, ListsWhatWasNotCounted) {
  ProcessRecord process = process_of({});
  process.totals.push_back(
      {.name = "my::gemm", .type = "fp32", .reason = "an operator we do not know", .calls = 7});
  RunReport report = report_run(run_of({process, process}), asked());
  ASSERT_EQ(report.uncounted.size(), 1u);
  EXPECT_EQ(report.uncounted[0].calls, 14u);
  EXPECT_EQ(report.counted_calls, 30u);
  EXPECT_EQ(report.by_operator.count("my::gemm"), 0u);
}

TEST(RunSteps, UnionCountsOverlapOnce) {
  using Pair = Interval;
  auto at = [](int start, int end) { return Pair(nanoseconds(start), nanoseconds(end)); };
  EXPECT_EQ(union_of({}), nanoseconds(0));
  EXPECT_EQ(union_of({at(0, 10), at(5, 15), at(20, 30), at(22, 25)}), nanoseconds(25));
}

TEST(RunSteps, PercentilesByNearestRank) {
  std::vector<nanoseconds> durations;
  for (int i = 100; i >= 1; --i) durations.emplace_back(i);
  auto times = times_of(durations);
  EXPECT_EQ(times->p10, nanoseconds(10));
  EXPECT_EQ(times->p90, nanoseconds(90));
  EXPECT_EQ(times->p99, nanoseconds(99));
  EXPECT_EQ(times->median, nanoseconds(50));
}

}  // namespace
}  // namespace mfu
