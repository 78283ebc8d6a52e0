#include "monitor/journal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "mfu/monitor.h"
#include "monitor/testing.h"

namespace mfu {
namespace {

using JournalTest = RegionTest;

TEST_F(JournalTest, facts_read_back_the_same) {
  JournalFacts facts{
      .host = "h", .pid = 7, .queue = "/x", .pipeline = {}, .model_json = kSmallLlama};
  facts.pipeline.meter.mode = SmartMode{.initial_profiling = false, .recalibration_frequency = 3};
  facts.pipeline.meter.recompute = Recompute::selective;
  facts.pipeline.basis = {.precision = Precision::bf16,
                          .peak = FlopRate{3e12},
                          .peak_source = "a \"quoted\" sheet",
                          .bandwidth = ByteRate{5e9},
                          .devices = 4,
                          .rank = 2,
                          .zero_where_unmeasured = true};
  facts.pipeline.flop_per_token = 12.5;
  facts.pipeline.realtime_offset = std::chrono::nanoseconds(-1'234'567'890'123'456'789);
  Result<JournalFacts> read = parse_facts(to_json(facts), "facts");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(facts));
  EXPECT_EQ(read->pipeline.realtime_offset, facts.pipeline.realtime_offset);
  EXPECT_FALSE(parse_facts("{}", "facts").has_value());
  EXPECT_FALSE(parse_facts("{", "facts").has_value());
}

TEST_F(JournalTest, damage_costs_what_was_damaged) {
  Result<Journal> journal = Journal::create(folder_, "steps-a-1-0", {.host = "a", .ended = true});
  ASSERT_TRUE(journal.has_value()) << journal.error().message;
  std::vector<JournalEntry> entries(10);
  for (std::size_t i = 0; i < 10; ++i) {
    entries[i].position = i;
    entries[i].step.kind = LoggedKind::step;
    entries[i].step.step = i;
  }
  ASSERT_TRUE(journal.value().append(entries).has_value());
  std::string path = folder_ + "/steps-a-1-0.bin", bytes = *read_file(path);
  bytes[136 * 4 + 20] ^= 1;
  ASSERT_TRUE(write_file(path, bytes.substr(0, bytes.size() - 50)).has_value());
  Result<JournalContent> read = read_journal(path);
  EXPECT_EQ(read->damaged, 1u);
  ASSERT_EQ(read->entries.size(), 8u);
  EXPECT_EQ(read->entries[4].step.step, 5u);
}

TEST_F(JournalTest, a_replayed_run_gives_the_same_reports) {
  std::string log = folder_ + "/log.jsonl";
  {
    FakeClock clock;
    MonitorOptions options;
    options.config.run_dir = folder_ + "/run";
    options.config.jsonl = log;
    options.config.generation_every = 3;
    options.model_json = kSmallLlama;
    options.peak = FlopRate{1e12};
    options.rank = 3;
    auto opened = Monitor::open(std::move(options), clock);
    ASSERT_TRUE(opened.has_value());
    Monitor& monitor = **opened;
    EXPECT_EQ(monitor.status().run_directory, folder_ + "/run");
    monitor.add_reading({.step = 2,
                         .shape = StepShape::of(4, 128),
                         .flop = 900'000'000,
                         .attention_flop = FlopCount(90'000'000)});
    for (std::uint64_t step = 0; step < 20; ++step) {
      clock.advance(std::chrono::milliseconds(100 + step));
      monitor.tokens().add_decode(2, 100);
      monitor.log_step({.step = step,
                        .loss = 1.0 / static_cast<double>(step + 1),
                        .shape = StepShape::of(4, 64 + 16 * step)});
      if (step % 7 == 0) monitor.flush(std::chrono::seconds(60));
    }
    monitor.close();
    EXPECT_FALSE(regions_left());
  }
  Result<RecordedSteps> steps = read_recorded_steps(folder_ + "/run");
  ASSERT_TRUE(steps.has_value()) << steps.error().message;
  std::string replayed;
  for (const StepReport& report : steps->reports) replayed += to_json(report) + '\n';
  EXPECT_EQ(replayed, *read_file(log));
  EXPECT_NE(replayed.find("calibrated"), std::string::npos);
  EXPECT_NE(replayed.find("mfu/mfu_percentage"), std::string::npos);
  EXPECT_TRUE(steps->notes.empty()) << steps->notes[0];
}

TEST_F(JournalTest, a_model_that_came_from_no_config_is_replayed_too) {
  ModelSpec shaped = *model_of_shape({.layers = 2, .hidden = 64, .heads = 4, .vocab = 1000});
  Result<TrainingPlan> adapters = plan_training(shaped, {.lora_rank = 8});
  ASSERT_TRUE(adapters.has_value()) << adapters.error().message;
  for (bool trained_whole : {true, false}) {
    std::string run = folder_ + (trained_whole ? "/whole" : "/adapters");
    FakeClock clock;
    MonitorOptions options;
    options.config.run_dir = run;
    options.config.jsonl = run + ".jsonl";
    options.model = shaped;
    if (!trained_whole) options.training = *adapters;
    options.peak = FlopRate{1e12};
    std::unique_ptr<Monitor> monitor = std::move(Monitor::open(std::move(options), clock)).value();
    for (std::uint64_t step = 0; step < 5; ++step) {
      clock.advance(std::chrono::milliseconds(100));
      monitor->log_step({.step = step, .shape = StepShape::of(4, 64 + 16 * step)});
    }
    monitor->close();
    Result<RecordedSteps> steps = read_recorded_steps(run);
    ASSERT_TRUE(steps.has_value()) << steps.error().message;
    std::string replayed;
    for (const StepReport& report : steps->reports) replayed += to_json(report) + '\n';
    EXPECT_EQ(replayed, *read_file(run + ".jsonl"));
    EXPECT_NE(replayed.find("model_flop"), std::string::npos);
    EXPECT_TRUE(steps->notes.empty()) << steps->notes[0];
  }
}

TEST_F(JournalTest, says_what_is_no_run) {
  EXPECT_EQ(read_recorded_steps(folder_ + "/nowhere").error().code, ErrorCode::not_found);
  EXPECT_EQ(read_recorded_steps(folder_).error().code, ErrorCode::not_found);
  ASSERT_TRUE(write_file(folder_ + "/steps-x-1-0.json", "{}").has_value());
  EXPECT_EQ(read_recorded_steps(folder_)->notes.size(), 1u);
}

// Records out of order and twice, numbers that arrived 5000 steps later, and entries written after
// their steps: a full disk and a late device leave such files.
TEST_F(JournalTest, is_put_in_order_without_being_held) {
  std::vector<JournalEntry> entries;
  constexpr std::uint64_t kSteps = 40'000;
  for (std::uint64_t i = 0; i < kSteps; ++i) {
    JournalEntry step{.position = 2 * i};
    step.step.kind = LoggedKind::step;
    step.step.step = i;
    step.step.has = awaits;
    step.step.ticket = static_cast<std::uint32_t>(i + 1);
    step.step.end_ns = static_cast<std::int64_t>(i + 1) * 1'000'000;
    JournalEntry later{.position = 2 * i + 1};
    later.step.kind = LoggedKind::arrived;
    later.step.has = has_loss;
    later.step.of.loss = static_cast<double>(i);
    later.step.ticket = static_cast<std::uint32_t>(i < 5'000 ? kSteps + 1 : i - 5'000 + 1);
    entries.push_back(step);
    entries.push_back(later);
  }
  for (std::size_t at = 0; at + 1'000 <= entries.size(); at += 1'000) {
    std::reverse(entries.begin() + static_cast<long>(at),
                 entries.begin() + static_cast<long>(at + 1'000));
  }
  Result<Journal> journal = Journal::create(folder_, "steps-a-1-0", JournalFacts{.ended = true});
  ASSERT_TRUE(journal.has_value());
  for (std::size_t at = 0; at < entries.size(); at += 1'000) {
    ASSERT_TRUE(journal.value().append(std::span(entries).subspan(at, 1'000)).has_value());
    if (at % 3'000 == 0) {
      ASSERT_TRUE(journal.value().append(std::span(entries).subspan(at, 500)).has_value());
    }
  }
  Result<StepStream> stream = open_recorded_steps(folder_);
  ASSERT_TRUE(stream.has_value()) << stream.error().message;
  std::uint64_t next = 0, most = 0;
  Result<RecordedSteps> ended =
      stream->read([&](std::span<const StepReport> reports) -> Result<void> {
        most = std::max<std::uint64_t>(most, reports.size());
        for (const StepReport& report : reports) {
          EXPECT_EQ(report.step, next);
          if (next < kSteps - 5'000) {
            EXPECT_EQ(report.loss, static_cast<double>(next + 5'000));
          } else {
            EXPECT_FALSE(report.loss);
          }
          ++next;
        }
        return {};
      });
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(next, kSteps);
  EXPECT_LE(most, 1'024u);
}

}  // namespace
}  // namespace mfu
