// Steps must survive a process that is started again under the same number, a directory that is
// deleted or renamed, a disk that refuses, a sink that hangs and a device that is late. Run
// directories of version 0.1.0 must still be read.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "mfu/monitor.h"
#include "monitor/feeder.h"
#include "monitor/journal.h"
#include "monitor/step_queue.h"
#include "monitor/testing.h"

namespace mfu {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

class SurvivalTest : public RegionTest {
 protected:
  MonitorOptions options() const {
    MonitorOptions made;
    made.config.mode = EstimateMode{};
    made.config.output_dir = out_;
    made.model_json = kSmallLlama;
    made.peak = FlopRate{1e12};
    return made;
  }
  static std::unique_ptr<Monitor> open(MonitorOptions options) {
    return std::move(Monitor::open(std::move(options))).value();
  }
  static void log(Monitor& monitor, std::uint64_t from, std::uint64_t until) {
    for (std::uint64_t step = from; step < until; ++step) {
      monitor.log_step(
          {.step = step, .loss = 1.0, .duration_s = 0.5, .shape = StepShape::of(1, 8)});
    }
  }
  static std::vector<std::uint64_t> steps_in(const std::string& folder) {
    std::vector<std::uint64_t> steps;
    Result<RecordedSteps> read = read_recorded_steps(folder);
    EXPECT_TRUE(read.has_value()) << (read.has_value() ? "" : read.error().message);
    if (!read.has_value()) return steps;
    for (const StepReport& each : read->reports) steps.push_back(each.step);
    return steps;
  }
  static std::vector<std::uint64_t> counted(std::uint64_t from, std::uint64_t until) {
    std::vector<std::uint64_t> steps;
    for (; from < until; ++from) steps.push_back(from);
    return steps;
  }
  static bool said(const Monitor& monitor, std::string_view part) {
    std::vector<std::string> all = monitor.warnings();
    return std::ranges::any_of(
        all, [&](const std::string& each) { return each.find(part) != std::string::npos; });
  }
  // A process that logs the steps [from, until) and is then killed.
  void killed(std::uint64_t from, std::uint64_t until) const {
    pid_t child = ::fork();
    if (child == 0) {
      std::unique_ptr<Monitor> monitor = open(options());
      log(*monitor, from, until);
      ::kill(::getpid(), SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
  }
  // Makes it look as if every process of that run had this process's number, as in a container that
  // was started again.
  void give_it_our_number() const {
    for (const std::string& path : facts_files(out_ + "/mfu-run")) {
      JournalFacts facts = *parse_facts(*read_file(path), path);
      facts.pid = static_cast<std::uint32_t>(::getpid());
      ASSERT_TRUE(write_file(path, to_json(facts)).has_value());
    }
  }
  std::string out_ = folder_ + "/out";
};

TEST_F(SurvivalTest, an_output_folder_keeps_a_run_without_any_option) {
  {
    std::unique_ptr<Monitor> monitor = open(options());
    log(*monitor, 0, 10);
    EXPECT_EQ(monitor->status().run_directory, out_ + "/mfu-run");
  }
  EXPECT_EQ(steps_in(out_), counted(0, 10));
  EXPECT_EQ(steps_in(out_ + "/mfu-run"), counted(0, 10));
  MonitorOptions without = options();
  without.config.keep_run = false;
  without.config.output_dir = folder_ + "/without";
  open(std::move(without))->log_step({.step = 1});
  EXPECT_FALSE(fs::exists(folder_ + "/without/mfu-run"));
}

TEST_F(SurvivalTest, a_process_started_again_under_the_same_number_loses_nothing) {
  for (std::uint64_t round = 0; round < 3; ++round) {
    killed(100 * round, 100 * round + 100);
    give_it_our_number();
  }
  std::unique_ptr<Monitor> monitor = open(options());
  // The old queues were recovered before the new one was made, so only the new one is left.
  EXPECT_EQ(std::distance(fs::directory_iterator(regions_), fs::directory_iterator()), 1);
  log(*monitor, 300, 400);
  monitor->close();
  EXPECT_FALSE(regions_left());
  EXPECT_EQ(steps_in(out_), counted(0, 400));
}

TEST_F(SurvivalTest, a_queue_is_recovered_once_and_never_while_its_process_lives) {
  std::unique_ptr<Monitor> alive = open(options());
  log(*alive, 0, 50);
  recover_journals(out_ + "/mfu-run");
  EXPECT_TRUE(regions_left());
  // The forked child below does not hold the lock of the process that forked it.
  ASSERT_TRUE(alive->flush(seconds(60)));
  alive->close();
  killed(50, 60);
  std::vector<std::thread> many;
  for (int i = 0; i < 8; ++i) many.emplace_back([&] { recover_journals(out_ + "/mfu-run"); });
  for (std::thread& each : many) each.join();
  EXPECT_FALSE(regions_left());
  EXPECT_EQ(steps_in(out_), counted(0, 60));
}

TEST_F(SurvivalTest, a_forked_child_does_not_hold_the_lock_of_its_dead_parent) {
  std::string path = regions_ + "/queue";
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  pid_t parent = ::fork();
  if (parent == 0) {
    Result<StepQueue> queue = StepQueue::create(path, 4);
    if (::fork() == 0) {
      char end = 0;
      ::close(ends[1]);
      ::_exit(static_cast<int>(::read(ends[0], &end, 1)));  // lives until the test ends it
    }
    ::_exit(DeadQueue(path).held() ? 1 : 0);
  }
  int status = -1;
  ::waitpid(parent, &status, 0);
  EXPECT_EQ(status, 0);
  // The child closes it as soon as it runs at all.
  bool held = false;
  for (int i = 0; i < 1000 && !held; ++i) {
    held = DeadQueue(path).held();
    if (!held) std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(held);
  ::close(ends[1]);
  ::close(ends[0]);
}

TEST_F(SurvivalTest, a_deleted_directory_is_made_again_with_every_step) {
  std::unique_ptr<Monitor> monitor = open(options());
  log(*monitor, 0, 100);
  ASSERT_TRUE(monitor->flush(seconds(60)));
  fs::remove_all(out_);
  log(*monitor, 100, 200);
  monitor->close();
  EXPECT_EQ(steps_in(out_), counted(0, 200));
  EXPECT_EQ(split(*read_file(out_ + "/training_log.json"), '\n').size(), 101u);
  EXPECT_TRUE(said(*monitor, "mfu-run was deleted or moved")) << monitor->warnings().size();
  EXPECT_TRUE(said(*monitor, "training_log.json was deleted or renamed"));
  EXPECT_EQ(monitor->status().dropped, 0u);
}

TEST_F(SurvivalTest, a_directory_deleted_after_the_last_step_is_made_again_at_the_end) {
  std::unique_ptr<Monitor> monitor = open(options());
  log(*monitor, 0, 100);
  ASSERT_TRUE(monitor->flush(seconds(60)));
  fs::remove_all(out_);
  monitor->close();
  EXPECT_EQ(steps_in(out_), counted(0, 100));
}

TEST_F(SurvivalTest, a_renamed_directory_keeps_its_steps_and_the_rest_go_on_under_the_name) {
  MonitorOptions with = options();
  with.config.csv = out_ + "/steps.csv";
  with.config.tensorboard = out_ + "/board";
  std::unique_ptr<Monitor> monitor = open(std::move(with));
  log(*monitor, 0, 100);
  ASSERT_TRUE(monitor->flush(seconds(60)));
  fs::rename(out_, out_ + ".1");
  log(*monitor, 100, 200);
  monitor->close();
  EXPECT_EQ(steps_in(out_ + ".1"), counted(0, 100));
  EXPECT_EQ(steps_in(out_), counted(100, 200));
  EXPECT_EQ(split(*read_file(out_ + ".1/steps.csv"), '\n').size(), 102u);
  EXPECT_EQ(split(*read_file(out_ + "/steps.csv"), '\n').size(), 102u);  // with its line of names
  EXPECT_EQ(std::distance(fs::directory_iterator(out_ + "/board"), fs::directory_iterator()), 1);
}

TEST_F(SurvivalTest, a_disk_that_refuses_costs_the_oldest_steps_and_stops_no_sink) {
  MonitorOptions with = options();
  with.queue_capacity = 64;
  with.config.jsonl = folder_ + "/elsewhere.jsonl";
  FakeClock clock;
  std::unique_ptr<Monitor> monitor = std::move(Monitor::open(std::move(with), clock)).value();
  log(*monitor, 0, 10);
  ASSERT_TRUE(monitor->flush(seconds(60)));
  // Nothing can be written while a file stands in the place of the directory.
  fs::remove_all(out_);
  ASSERT_TRUE(write_file(out_, "in the way").has_value());
  for (std::uint64_t step = 10; step < 500; step += 10) {
    log(*monitor, step, step + 10);
    ASSERT_TRUE(monitor->flush(seconds(60)));
  }
  EXPECT_EQ(split(*read_file(folder_ + "/elsewhere.jsonl"), '\n').size(), 501u);
  MonitorStatus status = monitor->status();
  EXPECT_EQ(status.logged, 500u);
  EXPECT_GT(status.dropped, 400u);
  EXPECT_TRUE(said(*monitor, "the newest 48 steps are held in memory"));
  EXPECT_TRUE(said(*monitor, "steps are dropped"));
  fs::remove(out_);
  clock.advance(seconds(2));
  monitor->close();
  // The first ten were in the deleted file and the newest are in the queue. The rest is reported as
  // a number.
  std::vector<std::uint64_t> kept = counted(0, 10);
  for (std::uint64_t step = 10 + status.dropped; step < 500; ++step) kept.push_back(step);
  EXPECT_EQ(steps_in(out_), kept);
  EXPECT_EQ(read_recorded_steps(out_)->dropped, status.dropped);
}

TEST_F(SurvivalTest, a_sink_that_hangs_stops_neither_the_others_nor_the_end) {
  std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  MonitorOptions with = options();
  with.config.jsonl = pipe;  // opening it to write waits for a reader
  with.close_patience = milliseconds(2000);
  std::unique_ptr<Monitor> monitor = open(std::move(with));
  for (std::uint64_t from = 0; from < 4'000; from += 200) {
    log(*monitor, from, from + 200);
    EXPECT_FALSE(monitor->flush(milliseconds(1)));
    for (int i = 0; i < 6000 && monitor->status().reported < from + 200; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
  }
  EXPECT_EQ(monitor->status().reported, 4'000u);
  EXPECT_EQ(monitor->status().dropped, 0u);
  log(*monitor, 4'000, 5'000);
  for (int i = 0; i < 6000 && monitor->status().reported < 5'000; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(said(*monitor, "reports are lost"));
  auto began = std::chrono::steady_clock::now();
  monitor->close();
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(10));
  EXPECT_EQ(monitor->status().unsent, 5'000u);
  EXPECT_TRUE(said(*monitor, pipe + ": it hangs"));
  EXPECT_EQ(split(*read_file(out_ + "/training_log.json"), '\n').size(), 5'001u);
  EXPECT_EQ(steps_in(out_).size(), 5'000u);
  monitor.reset();
  // Releases the thread that waits there.
  int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  std::this_thread::sleep_for(milliseconds(50));
  ::close(reader);
}

TEST_F(SurvivalTest, a_loop_without_a_pause_loses_no_token_in_a_log_that_is_slow_but_alive) {
  std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] {  // slower than the loop, but never quite stopped
    int file = ::open(pipe.c_str(), O_RDONLY);
    std::vector<char> piece(65'536);
    for (ssize_t got = 0; (got = ::read(file, piece.data(), piece.size())) > 0;) {
      read.append(piece.data(), static_cast<std::size_t>(got));
      std::this_thread::sleep_for(milliseconds(2));
    }
    ::close(file);
  });
  MonitorOptions with = options();
  with.config.jsonl = pipe;
  with.config.generation_every = 1;
  std::unique_ptr<Monitor> monitor = open(std::move(with));
  std::uint64_t counted = 0, step = 0;
  constexpr std::uint64_t kMany = 10 * SinkFeeder::kMostWaiting;
  for (; monitor->status().reported < kMany && step < 1'000'000'000; step += 1'000) {
    monitor->count_tokens(7);
    counted += 7;
    log(*monitor, step, step + 1'000);
  }
  EXPECT_TRUE(monitor->flush(seconds(60)));
  log(*monitor, step, step + 1);  // what was counted since then
  monitor->close();
  EXPECT_EQ(monitor->status().unsent, 0u);
  monitor.reset();
  reader.join();
  double found = 0;
  for (std::string_view line : split(read, '\n')) {
    if (line.empty()) continue;
    Result<Json> value = parse_json(line, "line");
    ASSERT_TRUE(value.has_value());
    found += value->number_at("mfu/total_tokens_generated").value_or(0);
  }
  EXPECT_EQ(found, static_cast<double>(counted));
}

TEST_F(SurvivalTest, dropped_steps_are_warned_of_once_and_kept_in_the_run) {
  MonitorOptions with = options();
  with.queue_capacity = 16;
  std::unique_ptr<Monitor> monitor = open(std::move(with));
  log(*monitor, 0, 200'000);
  monitor->flush(seconds(60));
  log(*monitor, 200'000, 400'000);
  monitor->close();
  MonitorStatus status = monitor->status();
  EXPECT_GT(status.dropped, 0u);
  std::vector<std::string> all = monitor->warnings();
  EXPECT_EQ(std::ranges::count_if(
                all, [](const std::string& each) { return each.starts_with("steps are dropped"); }),
            1);
  EXPECT_EQ(read_recorded_steps(out_)->dropped, status.dropped);
}

TEST_F(SurvivalTest, without_memory_that_outlives_it_the_run_directory_is_written_still) {
  ::setenv("MFU_REGION_DIR", "/nowhere", 1);
  std::unique_ptr<Monitor> monitor = open(options());
  EXPECT_TRUE(said(*monitor, "the steps of the last 100 ms will not survive"));
  log(*monitor, 0, 10);
  monitor->close();
  EXPECT_EQ(steps_in(out_), counted(0, 10));
}

TEST_F(SurvivalTest, a_step_whose_numbers_are_late_keeps_its_place_and_survives_without_them) {
  std::unique_ptr<Monitor> monitor = open(options());
  log(*monitor, 0, 1);
  StepInfo late{.step = 1, .learning_rate = 0.1, .duration_s = 0.5};
  std::uint32_t first = monitor->log_awaited(late);
  late.step = 2;
  std::uint32_t second = monitor->log_awaited(late);
  log(*monitor, 3, 4);
  ASSERT_TRUE(monitor->flush(seconds(60)));
  EXPECT_EQ(monitor->last_report()->step, 0u);  // those behind it wait
  // Killed now, all four are there; what had not arrived is not.
  Result<RecordedSteps> left = read_recorded_steps(out_);
  ASSERT_EQ(left->reports.size(), 4u);
  EXPECT_FALSE(left->reports[1].loss.has_value());
  EXPECT_EQ(left->reports[1].learning_rate, 0.1);
  monitor->complete(second, {.loss = 2.0, .shape = StepShape::of(2, 16)});
  monitor->complete(first, {.loss = 1.5, .shape = StepShape::of(2, 8)});
  monitor->complete(0, {.loss = 9.0});
  ASSERT_TRUE(monitor->flush(seconds(60)));
  EXPECT_EQ(monitor->last_report()->step, 3u);
  EXPECT_EQ(monitor->status().logged, 4u);
  monitor->close();
  std::string log = *read_file(out_ + "/training_log.json"), again;
  RecordedSteps replayed = *read_recorded_steps(out_);
  for (const StepReport& each : replayed.reports) again += to_json(each) + '\n';
  EXPECT_EQ(again, log);
  EXPECT_NE(log.find("\"step\":1,"), std::string::npos);
  EXPECT_NE(log.find("\"loss\":1.5"), std::string::npos);
  EXPECT_NE(log.find("\"perf/tokens_per_second\":64"),
            std::string::npos);  // 2 x 16 in half a second
}

TEST_F(SurvivalTest, a_device_that_never_answers_holds_up_half_a_queue_and_no_end) {
  MonitorOptions with = options();
  with.queue_capacity = 16;
  std::unique_ptr<Monitor> monitor = open(std::move(with));
  ASSERT_NE(monitor->log_awaited({.step = 0, .duration_s = 0.5}), 0u);
  for (std::uint64_t step = 1; step < 100; ++step) {
    log(*monitor, step, step + 1);
    ASSERT_TRUE(monitor->flush(seconds(60)));
  }
  EXPECT_EQ(monitor->last_report()->step, 99u);
  EXPECT_EQ(monitor->status().dropped, 0u);
  ASSERT_NE(monitor->log_awaited({.step = 100, .duration_s = 0.5}), 0u);
  monitor->close();
  EXPECT_EQ(split(*read_file(out_ + "/training_log.json"), '\n').size(), 102u);
}

// A directory that version 0.1.0 wrote, with its queue.
class OldRunTest : public SurvivalTest {
 protected:
  OldRunTest() {
    fs::copy(MFU_OLD_DIR, folder_ + "/old", fs::copy_options::recursive);
    std::string facts = folder_ + "/old/killed/run/steps-host-2560-0.json";
    std::string text = *read_file(facts), queue = folder_ + "/old/killed/run/steps.queue";
    text.replace(text.find("QUEUE"), 5, queue);
    EXPECT_TRUE(write_file(facts, text).has_value());
  }
};

TEST_F(OldRunTest, is_read_as_it_was_written) {
  Result<RecordedSteps> ended = read_recorded_steps(folder_ + "/old/ended/run");
  ASSERT_TRUE(ended.has_value()) << ended.error().message;
  EXPECT_TRUE(ended->notes.empty()) << ended->notes[0];
  std::string old = *read_file(folder_ + "/old/ended/training_log.json");
  std::vector<std::string_view> lines = split(old, '\n');
  ASSERT_EQ(lines.size(), ended->reports.size() + 1);
  for (std::size_t i = 0; i < ended->reports.size(); ++i) {
    Json was = *parse_json(lines[i], "old"), is = *parse_json(to_json(ended->reports[i]), "new");
    ASSERT_EQ(was.members().size(), is.members().size()) << lines[i];
    for (std::size_t m = 0; m < was.members().size(); ++m) {
      const auto& [name, value] = was.members()[m];
      EXPECT_EQ(name, is.members()[m].first);
      if (!value.number()) continue;
      // The last digit depends on the order of multiplications, which may change.
      double before = *value.number(), now = *is.members()[m].second.number();
      EXPECT_NEAR(now, before, 1e-12 * std::abs(before)) << name;
    }
  }
}

TEST_F(OldRunTest, is_recovered_where_its_process_is_dead) {
  std::string run = folder_ + "/old/killed/run";
  EXPECT_EQ(steps_in(run), counted(0, 13));  // eight in the journal, five in the queue
  std::string facts = facts_files(run)[0];
  JournalFacts old = *parse_facts(*read_file(facts), facts);
  EXPECT_FALSE(old.locked);
  old.host = this_host();
  old.pid = static_cast<std::uint32_t>(::getppid());
  ASSERT_TRUE(write_file(facts, to_json(old)).has_value());
  recover_journals(run);
  EXPECT_TRUE(fs::exists(run + "/steps.queue"));  // that process is still alive
  old.pid = static_cast<std::uint32_t>(::getpid());
  ASSERT_TRUE(write_file(facts, to_json(old)).has_value());
  recover_journals(run);
  EXPECT_FALSE(fs::exists(run + "/steps.queue"));
  EXPECT_EQ(steps_in(run), counted(0, 13));
}

TEST_F(OldRunTest, its_logs_are_continued) {
  MonitorOptions with = options();
  with.config.output_dir = folder_ + "/old/ended";
  with.config.csv = folder_ + "/old/ended/steps.csv";
  with.config.prometheus = folder_ + "/old/ended/mfu.prom";
  std::unique_ptr<Monitor> monitor = open(std::move(with));
  log(*monitor, 25, 30);
  monitor->close();
  EXPECT_TRUE(monitor->warnings().empty()) << monitor->warnings()[0];
  EXPECT_EQ(split(*read_file(folder_ + "/old/ended/training_log.json"), '\n').size(), 31u);
  EXPECT_EQ(split(*read_file(folder_ + "/old/ended/steps.csv"), '\n').size(), 32u);
}

}  // namespace
}  // namespace mfu
