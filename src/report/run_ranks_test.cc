#include "report/run_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mfu/run.h"

namespace mfu {
namespace {

using std::chrono::seconds;

ProcessRecord process_at(std::optional<std::uint32_t> rank, int from_s, int to_s,
                         std::uint32_t attempt = 0) {
  ProcessRecord process;
  process.rank = rank;
  process.world_size = 4;
  process.started = seconds(from_s);
  process.last = seconds(to_s);
  process.attempt = attempt;
  process.totals.emplace_back();
  Step step;
  step.start = seconds(from_s);
  step.end = seconds(to_s);
  process.steps = {step};
  return process;
}

std::vector<std::vector<std::size_t>> chains_of(const std::vector<ProcessRecord>& processes) {
  std::vector<const ProcessRecord*> pointers;
  for (const ProcessRecord& each : processes) pointers.push_back(&each);
  return rank_chains(pointers);
}

using Chains = std::vector<std::vector<std::size_t>>;

TEST(RankChains, a_process_that_began_after_another_of_its_rank_was_gone_is_its_restart) {
  EXPECT_EQ(chains_of({process_at(0, 0, 5), process_at(0, 7, 9), process_at(1, 0, 9)}),
            (Chains{{0, 1}, {2}}));
  EXPECT_EQ(chains_of({process_at(0, 7, 9), process_at(0, 0, 5)}), (Chains{{1, 0}}));
}

TEST(RankChains, two_at_the_same_time_are_two) {
  EXPECT_EQ(chains_of({process_at(0, 0, 5), process_at(0, 1, 6)}), (Chains{{0}, {1}}));
}

TEST(RankChains, processes_without_a_rank_are_never_one) {
  EXPECT_EQ(chains_of({process_at({}, 0, 1), process_at({}, 5, 6)}), (Chains{{0}, {1}}));
}

TEST(AddRanks, counts_restarts_and_names_what_is_missing) {
  RunRecord record;
  record.processes = {process_at(0, 0, 5), process_at(0, 7, 9, 1), process_at(2, 0, 9)};
  record.processes.push_back(process_at(2, 3, 3, 1));  // ended before its first step
  record.processes.back().steps.clear();
  RunReport report;
  add_ranks(record, report);
  EXPECT_EQ(report.ranks_expected, 4u);
  EXPECT_EQ(report.restarts, 2u);
  EXPECT_EQ(report.attempt, 1u);
  EXPECT_TRUE(report.partial);
  EXPECT_EQ(report.notes[0],
            (Note{"ranks_missing", {{"seen", std::int64_t{2}}, {"expected", std::int64_t{4}}}}));
}

TEST(AddRanks, a_program_without_ranks_expects_none) {
  RunRecord record;
  record.processes = {process_at({}, 0, 5)};
  RunReport report;
  add_ranks(record, report);
  EXPECT_FALSE(report.ranks_expected);
  EXPECT_FALSE(report.partial);
  EXPECT_TRUE(report.notes.empty());
}

TEST(AddRanks, says_which_launcher_has_not_ended_and_how_many_never_came) {
  RunRecord record;
  Launcher good{.host = "a", .tasks = 4, .ended = seconds(1), .over = true};
  Launcher killed{.host = "b", .over = true}, running{.host = "c"};
  Launcher replaced{.host = "d", .over = true, .superseded = true};
  record.launchers = {good, killed, running, replaced};
  RunReport report;
  add_ranks(record, report);
  std::vector<std::string> codes;
  for (const Note& note : report.notes) codes.push_back(note.code);
  EXPECT_EQ(codes, (std::vector<std::string>{"launcher_killed", "launcher_under_way",
                                             "launchers_missing"}));
}

// Ten steps of 100 s each, in which the rank waits so long in collectives and for a core.
ProcessRecord rank_that_waits(std::uint32_t rank, int for_ranks_s, int for_core_s = 0) {
  ProcessRecord process = process_at(rank, 0, 1000);
  process.steps.clear();
  for (int i = 0; i < 10; ++i) {
    Step step;
    step.sequence = static_cast<std::uint64_t>(i);
    step.start = seconds(100 * i);
    step.end = seconds(100 * (i + 1));
    step.phase[static_cast<std::size_t>(StepPhase::communication)] = seconds(for_ranks_s);
    step.host_time[static_cast<std::size_t>(HostPart::preempted)] = seconds(for_core_s);
    process.steps.push_back(step);
  }
  return process;
}

RunReport report_of(std::vector<ProcessRecord> processes) {
  RunRecord record;
  record.processes = std::move(processes);
  return report_run(record, {});
}

TEST(SlowRank, is_not_the_one_from_which_other_processes_took_the_cores) {
  EXPECT_EQ(report_of({rank_that_waits(0, 60), rank_that_waits(1, 20)}).slowest_rank, 1u);
  RunReport report = report_of({rank_that_waits(0, 60), rank_that_waits(1, 20, 40)});
  EXPECT_FALSE(report.slowest_rank.has_value());
}

bool has_code(const RunReport& report, const char* code) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [&](const Finding& each) { return each.code == code; });
}

// The ranks wait for cores. Other programs have them, unless the run itself fills its four cores.
TEST(HostPreempted, is_called_crowded_where_the_run_itself_has_the_cores) {
  std::vector<ProcessRecord> ranks = {rank_that_waits(0, 0, 40), rank_that_waits(1, 0, 40)};
  EXPECT_TRUE(has_code(report_of(ranks), "host_preempted"));
  for (ProcessRecord& rank : ranks) rank.affinity = {0, 1, 2, 3};
  ranks[0].facts = {{"cores_used", "0.50 0.30"}};
  ranks[1].facts = {{"cores_used", "0.50 1.40"}};  // 2.7 of 4
  EXPECT_TRUE(has_code(report_of(ranks), "host_preempted"));
  ranks[0].facts.push_back({"cores_used", "0.90 0.90"});  // 3.7 of 4
  RunReport report = report_of(ranks);
  EXPECT_TRUE(has_code(report, "host_crowded"));
  EXPECT_FALSE(has_code(report, "host_preempted"));
  ranks[0].host = "another";  // two machines, neither of them full
  EXPECT_TRUE(has_code(report_of(ranks), "host_preempted"));
  ranks[0].facts = {{"cores_used", "nan x"}};
  EXPECT_TRUE(has_code(report_of(ranks), "host_preempted"));
}

// The loop waits for its workers. Whether they compute or wait for a disk shows in their own time.
TEST(Loader, with_workers_that_compute_is_preprocessing) {
  ProcessRecord rank = rank_that_waits(0, 0);
  for (Step& step : rank.steps) {
    step.phase[static_cast<std::size_t>(StepPhase::data_wait)] = seconds(40);
  }
  rank.affinity = {0, 1};
  rank.facts = {{"loader", "workers"}, {"loader_ns", "400"}, {"loader_cpu_ns", "10"}};
  auto first = [&] { return report_of({rank}).findings.at(0); };
  EXPECT_EQ(first().code, "data_loading");
  rank.facts.push_back({"children_ready", "0.20 0.20"});  // mostly blocked
  EXPECT_EQ(first().code, "data_loading");
  rank.facts.back() = {"children_ready", "0.95 0.95"};
  rank.facts.push_back({"cores_used", "0.90 0.60"});
  EXPECT_EQ(first().code, "preprocessing");
  EXPECT_EQ(first().fixes, std::vector<std::string>{"preprocess_once"});  // no core is left
  rank.affinity = {0, 1, 2, 3};
  EXPECT_EQ(first().fixes, std::vector<std::string>{"more_workers"});
}

TEST(SlowRank, is_named_where_its_host_is_not_the_others) {
  std::vector<ProcessRecord> ranks = {rank_that_waits(0, 60), rank_that_waits(1, 20, 40)};
  ranks[0].host = "a";
  ranks[1].host = "b";
  EXPECT_EQ(report_of(ranks).slowest_rank, 1u);
}

// It works 20 s of 100, the other rank 16, so nobody waits long for it.
TEST(SlowRank, is_not_named_where_little_can_be_won) {
  RunReport report = report_of({rank_that_waits(0, 84), rank_that_waits(1, 80)});
  EXPECT_FALSE(report.slowest_rank.has_value());
}

// Of the 75 s that ranks wait, 10 are for the slow one, so the network is reported too.
TEST(SlowRank, does_not_explain_all_waiting) {
  RunReport report = report_of({rank_that_waits(0, 80), rank_that_waits(1, 70)});
  EXPECT_EQ(report.slowest_rank, 1u);
  EXPECT_TRUE(has_code(report, "straggler") && has_code(report, "communication"));
  report = report_of({rank_that_waits(0, 80), rank_that_waits(1, 10)});
  EXPECT_TRUE(std::none_of(report.findings.begin(), report.findings.end(),
                           [](const Finding& each) { return each.code == "communication"; }));
}

}  // namespace
}  // namespace mfu
