// Kills processes that log, at random instants. No step whose call returned may be lost, and each
// file their sinks left must be a valid beginning of the file that the export writes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "mfu/monitor.h"
#include "monitor/journal.h"
#include "monitor/testing.h"

namespace mfu {
namespace {

namespace fs = std::filesystem;

using KillTest = RegionTest;

// The child reads from these variables where to log, and the pipe to which it reports each logged
// step.
constexpr const char *kChildFolder = "MFU_KILL_TEST_FOLDER", *kChildPipe = "MFU_KILL_TEST_PIPE";

// What the child does until it is killed: it logs, and reports each step whose call returned.
void log_until_killed(const std::string& folder, int acknowledge) {
  MonitorOptions options;
  options.config.mode = SmartMode{};
  options.config.generation_every = 7;
  options.config.output_dir = folder;  // and nothing more: steps survive by default
  options.config.tensorboard = folder + "/board";
  options.model_json = kSmallLlama;
  options.peak = FlopRate{1e12};
  options.queue_capacity = 1 << 14;
  auto monitor = Monitor::open(std::move(options));
  for (std::uint64_t step = 0; monitor.has_value(); ++step) {
    if (step == 40) {
      (*monitor)->add_reading({.step = step, .shape = StepShape::of(1, 8), .flop = 3'000'000});
    }
    (*monitor)->count_tokens(3);
    (*monitor)->log_step({.step = step, .loss = 1.0, .shape = StepShape::of(1, 8)});
    if (::write(acknowledge, &step, sizeof step) != sizeof step) break;
    if (step % 16 == 15) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// Runs this program again as the process that is killed. A fork alone would not do: the thread
// sanitizer cannot follow the threads of a forked child. If the variables are set, the program logs
// instead of running any test.
class KilledProcess : public testing::Environment {
 public:
  void SetUp() override {
    const char* folder = std::getenv(kChildFolder);
    if (folder == nullptr) return;
    log_until_killed(folder, std::atoi(std::getenv(kChildPipe)));
    ::_exit(1);
  }
};
[[maybe_unused]] const auto* const kKilledProcess =
    testing::AddGlobalTestEnvironment(new KilledProcess);

[[noreturn]] void become_the_child(const std::string& folder, int pipe) {
  ::setenv(kChildFolder, folder.c_str(), 1);
  ::setenv(kChildPipe, std::to_string(pipe).c_str(), 1);
  ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
  ::execl("/proc/self/exe", "killed", nullptr);
  ::_exit(127);
}

// Kills the child some time into its work and returns how many steps it reported as logged.
std::uint64_t kill_some_time(const std::string& folder, std::chrono::microseconds after) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe(ends), 0);
  pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    become_the_child(folder, ends[1]);
  }
  ::close(ends[1]);
  std::uint64_t said = 0, got = 0;
  EXPECT_EQ(::read(ends[0], &got, sizeof got), static_cast<ssize_t>(sizeof got));
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  do said = got + 1;
  while (::read(ends[0], &got, sizeof got) == sizeof got);
  ::close(ends[0]);
  return said;
}

// The log of a killed process is the beginning of the whole log; its last line may be cut.
void expect_beginning(const std::string& left, const std::string& whole) {
  std::size_t end = left.rfind('\n');
  if (end == std::string::npos) return;  // killed before the first line was whole
  ASSERT_LE(end, whole.size());
  ASSERT_EQ(left.substr(0, end + 1), whole.substr(0, end + 1));
}

std::string bytes_of(const std::string& path) {
  Result<std::string> bytes = read_file(path, 1u << 30);
  return bytes.has_value() ? *bytes : "";  // killed before it was made
}

std::uint32_t masked(std::string_view bytes) {
  std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename T>
T number_at(std::string_view bytes, std::size_t at) {
  T number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// Gives the whole records of an event file (length, masked CRC, data, masked CRC) and what follows
// the last whole one. Nothing before the end may be broken.
struct EventRecords {
  std::vector<std::string> data;
  std::size_t half = 0;  // bytes
};
EventRecords read_events(const std::string& path) {
  EventRecords records;
  std::string bytes = bytes_of(path);
  std::size_t at = 0;
  while (bytes.size() - at >= 12) {
    auto length = number_at<std::uint64_t>(bytes, at);
    EXPECT_EQ(number_at<std::uint32_t>(bytes, at + 8),
              masked(std::string_view(bytes).substr(at, 8)))
        << path << " at " << at;
    if (bytes.size() - at < length + 16) break;
    std::string data = bytes.substr(at + 12, length);
    EXPECT_EQ(number_at<std::uint32_t>(bytes, at + 12 + length), masked(data)) << path;
    records.data.push_back(std::move(data));
    at += length + 16;
  }
  records.half = bytes.size() - at;
  return records;
}

std::vector<std::string> records_in(const std::string& folder) {
  std::vector<std::string> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    for (std::string& each : read_events(entry.path()).data) all.push_back(std::move(each));
  }
  return all;
}

// The steps of a run as the monitor wrote them, and as the export writes them.
void expect_whole_export(const std::string& run, const RecordedSteps& steps) {
  Result<ExportReport> done =
      export_steps(steps, {.jsonl = run + "/whole.json", .tensorboard = run + "/whole"});
  ASSERT_TRUE(done.has_value()) << done.error().message;
  std::string whole = bytes_of(run + "/whole.json");
  ASSERT_EQ(split(whole, '\n').size(), steps.reports.size() + 1);
  expect_beginning(bytes_of(run + "/training_log.json"), whole);
  std::vector<std::string> left = records_in(run + "/board"), all = records_in(run + "/whole");
  ASSERT_EQ(all.size(), steps.reports.size() + 1);  // and the line with the version
  ASSERT_LE(left.size(), all.size());
  for (std::size_t i = 0; i < left.size(); ++i) ASSERT_EQ(left[i], all[i]) << "record " << i;
}

TEST_F(KillTest, no_step_that_was_logged_is_lost_to_a_kill) {
  constexpr int kRounds = 200;
  std::mt19937 random(7);
  std::uint64_t recovered = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string run = folder_ + "/run" + std::to_string(round);
    std::uint64_t said = kill_some_time(run, std::chrono::microseconds(random() % 60'000));
    Result<RecordedSteps> steps = read_recorded_steps(run);
    ASSERT_TRUE(steps.has_value()) << steps.error().message;
    ASSERT_EQ(steps->dropped, 0u);
    ASSERT_GE(steps->reports.size(), said);
    for (std::size_t i = 0; i < steps->reports.size(); ++i) {
      ASSERT_EQ(steps->reports[i].step, i) << "round " << round;
    }
    expect_whole_export(run, *steps);
    if (round % 20 == 0) {
      recover_journals(run + "/mfu-run");
      ASSERT_EQ(read_recorded_steps(run)->reports.size(), steps->reports.size());
      ASSERT_FALSE(regions_left());
    }
    recovered += steps->reports.size();
    if (HasFailure()) break;
    fs::remove_all(run);
    fs::remove_all(regions_);
    fs::create_directories(regions_);
  }
  RecordProperty("steps", static_cast<int>(recovered));
}

}  // namespace
}  // namespace mfu
