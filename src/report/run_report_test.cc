#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "mfu/report.h"
#include "mfu/run.h"
#include "mfu/steps.h"
#include "report/run_steps.h"

namespace mfu {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A processor with 100 GFLOP/s in fp32 and 200 in bf16, so that results can be computed by hand.
Device hand_made() {
  Device device;
  device.name = "hand-made";
  device.kind = "cpu";
  Peak fp32, bf16;
  fp32.precision = Precision::fp32;
  fp32.rate = {100e9};
  bf16.precision = Precision::bf16;
  bf16.rate = {200e9};
  device.peaks = {fp32, bf16};
  return device;
}

RunQuestion asked() {
  RunQuestion question;
  question.device.name = "hand-made";
  question.device.device = hand_made();
  return question;
}

bool says(const RunReport& report, std::string_view code, const NoteValues& values = {}) {
  return std::any_of(report.notes.begin(), report.notes.end(), [&](const Note& note) {
    return note.code == code && (values.empty() || note.values == values);
  });
}

struct MadeSteps {
  int count = 5;
  milliseconds duration{100};
  std::uint64_t flop = 2'000'000'000;  // model; 2 GFLOP in 0.1 s: 20 GFLOP/s
  std::uint64_t recomputed = 0;
  std::string type = "fp32";
  milliseconds communication{0}, data_wait{0};
};

ProcessRecord process_of(const MadeSteps& shape, std::optional<std::uint32_t> rank = std::nullopt) {
  ProcessRecord process;
  process.host = "here";
  process.pid = 100 + rank.value_or(0);
  process.rank = rank;
  CountedFlop each{shape.flop, FlopCount(shape.flop) + shape.recomputed, shape.recomputed};
  nanoseconds now{0};
  OperatorTotal total;
  total.name = "aten::mm";
  total.type = shape.type;
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

// 4 steps after one of warm-up: 8 GFLOP in 0.4 s are 20 GFLOP/s of 100, so 20%. The whole run: 10
// GFLOP in 1 s, so 10%.
TEST(Tf32, is_advised_only_where_every_process_said_that_it_is_refused) {
  auto refused = [](std::vector<std::vector<Fact>> facts) {
    RunRecord record;
    for (std::vector<Fact>& each : facts) {
      record.processes.push_back(process_of({}));
      record.processes.back().facts = std::move(each);
    }
    return tf32_refused(record);
  };
  Fact gpu{"device", "cuda:0 NVIDIA A100-SXM4-80GB"}, no{"tf32", "0"}, yes{"tf32", "1"};
  EXPECT_TRUE(refused({{gpu, no}, {gpu, no}}));
  EXPECT_TRUE(refused({{gpu, no}, {{"device", "cpu cpu"}}}));
  EXPECT_FALSE(refused({{gpu, no}, {gpu, yes}}));
  EXPECT_FALSE(refused({{gpu, no}, {gpu}})) << "the second did not say";
  EXPECT_FALSE(refused({{gpu}}));
  EXPECT_FALSE(refused({{{"device", "cpu cpu"}}}));
}

TEST(RunDevice, is_the_partition_that_the_device_says_it_is) {
  RunRecord record;
  record.processes = {process_of({.type = "bf16"}, 0), process_of({.type = "bf16"}, 1)};
  for (ProcessRecord& each : record.processes) {
    each.facts = {{"device", "cuda:0 AMD Instinct MI300X"},
                  {"device_architecture", "gfx942:sramecc+:xnack-"},
                  {"device_units", "38"},
                  {"device_memory", "25769803776"}};
  }
  Result<RunDevice> device = device_of_run(record, Catalog::builtin(), "");
  ASSERT_TRUE(device.has_value() && device->device);
  EXPECT_EQ(device->device->name, "MI300X CPX");
  record.processes[1].facts[2].value = "304";
  device = device_of_run(record, Catalog::builtin(), "");
  EXPECT_FALSE(device->device);  // devices of two sizes have no common peak
  ASSERT_FALSE(device->notes.empty());
}

TEST(RunReport, divides_model_flop_by_time_and_peak) {
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

TEST(RunReport, parts_recomputation_from_the_model) {
  RunReport report = report_run(run_of({process_of({.recomputed = 1'000'000'000})}), asked());
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.2);
  EXPECT_DOUBLE_EQ(report.hfu->value, 0.3);
  EXPECT_EQ(report.flop->recomputed_flop, 5'000'000'000u);
}

TEST(RunReport, gives_half_the_utilization_for_twice_the_time) {
  for (int duration : {1, 7, 100, 333}) {
    MadeSteps once{.duration = milliseconds(duration)};
    MadeSteps twice{.duration = milliseconds(2 * duration)};
    double fast = report_run(run_of({process_of(once)}), asked()).mfu->value;
    double slow = report_run(run_of({process_of(twice)}), asked()).mfu->value;
    EXPECT_DOUBLE_EQ(fast, 2 * slow);
  }
}

// Two ranks on one processor: 2 × 8 GFLOP in the same 0.4 s, so 40%.
TEST(RunReport, takes_ranks_on_one_processor_for_one_device) {
  RunReport report = report_run(run_of({process_of({}, 0), process_of({}, 1)}), asked());
  EXPECT_EQ(report.ranks, 2u);
  EXPECT_EQ(report.steps, 5u);
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.4);
  EXPECT_DOUBLE_EQ(*report.tokens_per_s, 20000);
}

// Two GPUs: 2 × 8 GFLOP in 2 × 0.4 s, so 20%.
TEST(RunReport, takes_ranks_on_gpus_of_their_own_for_a_device_each) {
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

TEST(RunReport, is_the_same_for_ranks_in_any_order) {
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

// fp32: 8 GFLOP at 100 take 80 ms at peak. bf16: 8 at 200 take 40 ms. Together 120 of 400 ms, so
// 30%.
TEST(RunReport, adds_types_up_by_their_own_peaks) {
  ProcessRecord mixed = process_of({});
  for (Step& step : mixed.steps) step.flop.push_back({"bf16", step.flop[0].flop});
  OperatorTotal bf16 = mixed.totals[0];
  bf16.type = "bf16";
  mixed.totals.push_back(bf16);
  RunReport report = report_run(run_of({mixed}), asked());
  EXPECT_NEAR(report.mfu->value, 0.3, 1e-12);
  EXPECT_EQ(report.by_type.size(), 2u);
}

TEST(RunReport, holds_a_type_without_a_unit_against_what_it_is_computed_in) {
  RunReport report = report_run(run_of({process_of({.type = "fp16"})}), asked());
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.2);  // against fp32
  EXPECT_EQ(report.by_type[0].peak.against, Precision::fp32);
  EXPECT_TRUE(says(report, "held_against_wider", {{"dtype", "fp16"}, {"against", "fp32"}}));
}

TEST(RunReport, names_the_rank_that_keeps_the_others_waiting) {
  // In lockstep every step takes 100 ms. Rank 1 waits for nobody.
  std::vector<ProcessRecord> ranks = {process_of({.communication = milliseconds(60)}, 0),
                                      process_of({.communication = milliseconds(5)}, 1),
                                      process_of({.communication = milliseconds(61)}, 2)};
  RunReport report = report_run(run_of(ranks), asked());
  EXPECT_EQ(report.slowest_rank, 1u);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].code, "straggler");
  EXPECT_EQ(report.findings[0].values[2].second, NoteValue(std::int64_t{1}));  // the rank
  // If the ranks are alike, none is named.
  for (ProcessRecord& each : ranks)
    each = process_of({.communication = milliseconds(5)}, each.rank);
  EXPECT_FALSE(report_run(run_of(ranks), asked()).slowest_rank.has_value());
}

TEST(RunReport, suggests_first_what_wins_most) {
  RunReport report = report_run(
      run_of({process_of({.communication = milliseconds(15), .data_wait = milliseconds(40)})}),
      asked());
  ASSERT_GE(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[0].cause, Cause::data_loading);
  EXPECT_NEAR(*report.findings[0].gain_ceiling_mfu, 0.2 / 0.6 - 0.2, 1e-9);
  EXPECT_DOUBLE_EQ(report.phase[0]->value, 0.4);
}

TEST(RunReport, leaves_out_slow_first_steps_and_says_so) {
  ProcessRecord process = process_of({.count = 20});
  for (int i = 0; i < 3; ++i) process.steps[i].start -= std::chrono::seconds(3 - i);
  RunReport report = report_run(run_of({process}), asked());
  EXPECT_EQ(report.warmup, 3u);
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.2);
  EXPECT_TRUE(says(report, "warmup", {{"steps", std::int64_t{3}}, {"whose", "the run"}}));
  RunQuestion question = asked();
  question.warmup = 7;
  EXPECT_EQ(report_run(run_of({process}), question).warmup, 7u);
}

TEST(RunReport, says_what_it_does_not_know) {
  RunReport report = report_run(run_of({}), asked());
  EXPECT_FALSE(report.flop.has_value());
  EXPECT_FALSE(report.mfu.has_value());
  EXPECT_TRUE(says(report, "no_torch"));
  // There are steps but no device: there are counts but no MFU.
  RunQuestion question;
  report = report_run(run_of({process_of({})}), question);
  EXPECT_TRUE(report.flop.has_value());
  EXPECT_FALSE(report.mfu.has_value());
  // There are counts but no steps: only the MFU of the whole run.
  ProcessRecord stepless = process_of({});
  stepless.steps.clear();
  report = report_run(run_of({stepless}), asked());
  EXPECT_FALSE(report.mfu.has_value());
  EXPECT_DOUBLE_EQ(report.mfu_wall->value, 0.1);
}

TEST(RunReport, tells_padded_tokens_apart_where_they_were_seen) {
  ProcessRecord process = process_of({});  // 5 steps of 1000 tokens
  PhaseTotal train, validation;
  train.phase = RunPhase::train;
  train.tokens = 4000;
  train.padded_tokens = 300;
  validation.phase = RunPhase::validation;
  validation.tokens = 1000;
  process.phases = {train, validation};
  EXPECT_FALSE(report_run(run_of({process}), asked()).tokens_by_kind->padded.has_value());
  process.facts = {{"padding", "seen"}};
  RunReport report = report_run(run_of({process}), asked());
  EXPECT_EQ(report.tokens_by_kind->padded, 300u);
  EXPECT_EQ(report.tokens_by_kind->training, 3700u);
  EXPECT_EQ(report.tokens_by_kind->evaluation, 1000u);
  process.facts.push_back({"padding", "unread"});
  report = report_run(run_of({process}), asked());
  EXPECT_FALSE(report.tokens_by_kind->padded.has_value());
  EXPECT_EQ(report.tokens_by_kind->training, 4000u);
  EXPECT_TRUE(says(report, "padding_unread"));
}

TEST(RunReport, never_clamps_what_cannot_be) {
  RunReport report = report_run(run_of({process_of({.flop = 90'000'000'000})}), asked());
  EXPECT_DOUBLE_EQ(report.mfu->value, 9);
  ASSERT_FALSE(report.contradictions.empty());
}

TEST(RunReport, lists_what_was_not_counted) {
  ProcessRecord process = process_of({});
  OperatorTotal unknown;
  unknown.name = "my::gemm";
  unknown.reason = "an operator we do not know";
  unknown.calls = 7;
  process.totals.push_back(unknown);
  RunReport report = report_run(run_of({process, process}), asked());
  ASSERT_EQ(report.uncounted.size(), 1u);
  EXPECT_EQ(report.uncounted[0].calls, 14u);
  EXPECT_EQ(report.counted_calls, 30u);
  EXPECT_EQ(report.by_operator.count("my::gemm"), 0u);
}

TEST(RunSteps, union_counts_overlap_once) {
  using Pair = Interval;
  auto at = [](int start, int end) { return Pair(nanoseconds(start), nanoseconds(end)); };
  EXPECT_EQ(union_of({}), nanoseconds(0));
  EXPECT_EQ(union_of({at(0, 10), at(5, 15), at(20, 30), at(22, 25)}), nanoseconds(25));
}

TEST(RunSteps, percentiles_by_nearest_rank) {
  std::vector<nanoseconds> durations;
  for (int i = 100; i >= 1; --i) durations.emplace_back(i);
  auto times = times_of(durations);
  EXPECT_EQ(times->p10, nanoseconds(10));
  EXPECT_EQ(times->p90, nanoseconds(90));
  EXPECT_EQ(times->p99, nanoseconds(99));
  EXPECT_EQ(times->median, nanoseconds(50));
}

// 2 GFLOP in 0.1 s at 100 GFLOP/s are 20% in every step, and every step is reported.
TEST(RunReport, gives_single_steps_as_the_monitor_reports_them) {
  RunRecord record = run_of({process_of({}, 0), process_of({.count = 3}, 1)});
  record.processes[1].token_rows = 7;  // a pipeline stage without the vocabulary
  std::vector<StepReport> steps = report_run_steps(record, asked());
  ASSERT_EQ(steps.size(), 8u);
  for (const StepReport& step : steps) EXPECT_DOUBLE_EQ(*step.value("perf/mfu"), 0.2);
  EXPECT_DOUBLE_EQ(*steps[0].value("perf/tokens_per_second"), 10000);
  EXPECT_FALSE(steps[5].value("perf/tokens_per_second"));
  EXPECT_EQ(steps[5].basis->rank, 1u);
  EXPECT_EQ(steps[7].step, 2u);
  EXPECT_EQ(steps[0].source, Source::counted);
  EXPECT_EQ(steps[0].basis->precision, Precision::fp32);
  RunQuestion nothing;
  EXPECT_FALSE(report_run_steps(record, nothing)[0].value("perf/mfu"));
  EXPECT_TRUE(report_run_steps(record, nothing)[0].value("perf/step_time"));
}

// 2 GFLOP at 100 and 2 at 200 GFLOP/s need 0.03 s of the 0.1, so 30%. A type without a place of its
// own ("other") counts as the most used type: 1 GFLOP more at 200 makes 35%.
TEST(RunReport, holds_each_type_of_a_step_against_its_own_peak) {
  RunRecord record = run_of({process_of({.count = 1})});
  Step& step = record.processes[0].steps[0];
  CountedFlop more{2'000'000'001u, 2'000'000'001u, 0};
  step.flop.push_back({"bf16", more});
  std::vector<StepReport> steps = report_run_steps(record, asked());
  EXPECT_NEAR(*steps[0].value("perf/mfu"), 0.3, 1e-9);
  EXPECT_EQ(steps[0].basis->precision, Precision::bf16);
  EXPECT_NE(steps[0].basis->peak_source.find("each by its share"), std::string::npos);
  step.flop.push_back({"other", {1'000'000'000u, 1'000'000'000u, 0}});
  EXPECT_NEAR(*report_run_steps(record, asked())[0].value("perf/mfu"), 0.35, 1e-9);
  step.flop.push_back({"no such type", {1'000'000'000u, 1'000'000'000u, 0}});
  EXPECT_FALSE(report_run_steps(record, asked())[0].value("perf/mfu"));
}

RunReport with_facts(std::vector<Fact> facts) {
  RunRecord record;
  record.processes.push_back(process_of({}));
  for (Fact& each : facts) record.processes.back().facts.push_back(std::move(each));
  return report_run(record, asked());
}

TEST(RunCoverage, is_complete_where_every_library_is_counted) {
  RunReport report = with_facts({{"library", "deep_gemm\t2.1.0\tcounted\t"}});
  EXPECT_EQ(report.complete, std::optional(true));
  ASSERT_EQ(report.libraries.size(), 1u);
  EXPECT_TRUE(report.libraries[0].counted);
}

TEST(RunCoverage, is_not_known_beside_a_library_of_an_unknown_version) {
  RunReport report = with_facts({{"library", "deep_gemm\t2.1.0\tcounted\t"},
                                 {"library", "deep_gemm\t2.1.0\tunknown\tits arguments"}});
  EXPECT_EQ(report.complete, std::nullopt);
  ASSERT_EQ(report.libraries.size(), 1u);
  EXPECT_FALSE(report.libraries[0].counted);
  EXPECT_EQ(report.libraries[0].why, "its arguments");
  report = with_facts({{"doubt", "why"}, {"opaque", "Mine\tprogram"}});
  EXPECT_TRUE(!report.complete && says(report, "coverage_doubt") &&
              says(report, "function_opaque"));
}

TEST(RunCoverage, is_false_where_products_were_not_seen) {
  RunReport report = with_facts({{"unseen", "Mine\tprogram\t8 × 4"}});
  EXPECT_EQ(report.complete, std::optional(false));
  Note note("products_unseen", {{"function", "Mine"}, {"module", "program"}, {"shape", "8 × 4"}});
  EXPECT_EQ(report.contradictions, std::vector{note});
}

// 5 steps of 2 GFLOP. `first` of each is on one place, the rest on the other.
ProcessRecord on_places(const std::string& one, const std::string& other, std::uint64_t first) {
  ProcessRecord process = process_of({});
  PhaseTotal train;
  train.phase = RunPhase::train;
  std::uint64_t second = 2'000'000'000 - first;
  train.lines = {
      {.device = one, .identity = one == "cpu" ? "" : "id-" + one, .type = "fp32"},
      {.device = other, .identity = other == "cpu" ? "" : "id-" + other, .type = "fp32"}};
  train.lines[0].flop = {5 * first, 5 * first, 0};
  train.lines[1].flop = {5 * second, 5 * second, 0};
  process.phases = {train};
  return process;
}

const RunDeviceReport* device_at(const RunReport& report, std::optional<std::uint64_t> index) {
  auto same = [&](const RunDeviceReport& each) { return each.index == index; };
  auto found = std::find_if(report.by_device.begin(), report.by_device.end(), same);
  return found != report.by_device.end() ? &*found : nullptr;
}

// 1.5 of the 2 GFLOP in a step of 0.1 s ran on the accelerator: 15 of 100 GFLOP/s. Those of the
// processor do not count for it.
TEST(RunReport, holds_an_accelerator_with_an_offloaded_part_against_its_own_flop) {
  RunReport report = report_run(run_of({on_places("late:0", "cpu", 1'500'000'000)}), asked());
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.15);
  EXPECT_DOUBLE_EQ(report.mfu_wall->value, 0.075);
  ASSERT_EQ(report.by_device.size(), 2u);
  EXPECT_EQ(device_at(report, 0)->flop.model_flop, 7'500'000'000u);
  EXPECT_EQ(device_at(report, std::nullopt)->flop.model_flop, 2'500'000'000u);
}

// Two accelerators of one process: 2 GFLOP in 0.1 s on both are 10%, and 15% and 5% of each.
TEST(RunReport, holds_one_process_on_two_accelerators_against_two) {
  RunReport report = report_run(run_of({on_places("late:0", "late:1", 1'500'000'000)}), asked());
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.1);
  EXPECT_DOUBLE_EQ(device_at(report, 0)->mfu->value, 0.15);
  EXPECT_DOUBLE_EQ(device_at(report, 1)->mfu->value, 0.05);
}

// An H100 and an A100 in one process: each has its own peak, and MFU is over both.
TEST(RunReport, holds_different_accelerators_against_a_peak_each) {
  ProcessRecord process = on_places("late:0", "late:1", 1'000'000'000);
  process.facts = {{"device_name@late:0", "NVIDIA H100 80GB HBM3"},
                   {"device_name@late:1", "NVIDIA A100-SXM4-80GB"}};
  RunQuestion question;
  question.device = device_of_run(run_of({process}), Catalog::builtin(), "").value();
  EXPECT_EQ(question.device.devices, 2u);
  RunReport report = report_run(run_of({process}), question);
  double h100 = 10e9 / 66.9e12, a100 = 10e9 / 19.5e12;
  EXPECT_NEAR(device_at(report, 0)->mfu->value, h100, 1e-9);
  EXPECT_NEAR(device_at(report, 1)->mfu->value, a100, 1e-9);
  EXPECT_NEAR(report.mfu->value, (h100 + a100) / 2, 1e-9);
}

TEST(RunReport, gives_no_mfu_where_one_accelerator_is_not_known) {
  ProcessRecord process = on_places("late:0", "late:1", 1'000'000'000);
  process.facts = {{"device_name@late:0", "NVIDIA H100 80GB HBM3"}};
  RunQuestion question;
  question.device = device_of_run(run_of({process}), Catalog::builtin(), "").value();
  RunReport report = report_run(run_of({process}), question);
  EXPECT_FALSE(report.mfu.has_value());
  EXPECT_TRUE(device_at(report, 0)->mfu.has_value());
  EXPECT_FALSE(device_at(report, 1)->mfu.has_value());
}

// The process of a loader multiplies on the CPU. That is not work of the accelerator.
TEST(RunReport, keeps_loader_processes_out_of_an_accelerators_run) {
  ProcessRecord loader = process_of({.count = 3}, 1);
  loader.steps.clear();
  ProcessRecord trainer = on_places("late:0", "late:0", 2'000'000'000);
  RunReport report = report_run(run_of({trainer, loader}), asked());
  EXPECT_DOUBLE_EQ(report.mfu->value, 0.2);
  EXPECT_DOUBLE_EQ(report.mfu_wall->value, 0.1);
  EXPECT_EQ(report.flop->model_flop, 16'000'000'000u);
}

// 10 GFLOP in a run of 1 s, compared with 5 GFLOP/s.
TEST(RunReport, calls_a_whole_run_above_the_peak_a_contradiction) {
  RunQuestion question = asked();
  question.peak = FlopRate{5e9};
  RunReport report = report_run(run_of({process_of({})}), question);
  EXPECT_TRUE(std::any_of(
      report.contradictions.begin(), report.contradictions.end(),
      [](const Note& each) { return each.values[0].second == NoteValue("MFU of the whole run"); }));
}

}  // namespace
}  // namespace mfu
