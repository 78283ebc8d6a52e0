#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "base/file.h"
#include "record/codec.h"
#include "record/drain.h"
#include "record/frames.h"
#include "record/region_file.h"
#include "record/testing.h"

namespace mfu {
namespace {

using namespace mfu::testing;

// A process that takes `steps` steps with one call each.
pid_t stepping_child(const RunPlaces& places, int steps, const std::string& device = "cpu") {
  return begin_child([&] {
    Recorder& recorder = Recorder::process();
    if (!recorder.start({.folder = places.region_folder})) _exit(1);
    recorder.fact("device", device);
    unsigned mm = recorder.operator_id("aten::mm"), fp32 = recorder.type_id("fp32");
    for (int i = 0; i < steps; ++i) one_step(recorder, mm, fp32);
  });
}

TEST(Run, holds_what_its_processes_did) {
  Folder folder;
  RunPlaces places = places_in(folder);
  EXPECT_TRUE(end_child(stepping_child(places, 300)));
  Drainer drainer(places);
  EXPECT_FALSE(drainer.drain());
  ASSERT_EQ(drainer.recent().processes.size(), 1u);
  EXPECT_EQ(drainer.recent().processes[0].steps.size(), 64u);
  EXPECT_EQ(hardware_flop(drainer.recent().processes[0]), 300000u);
  drainer.finish();
  ASSERT_TRUE(close_run(places, {.status = 3}).has_value());
  EXPECT_FALSE(std::filesystem::exists(places.region_folder));
  auto run = read_run(places.directory);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_EQ(run->run.command, (std::vector<std::string>{"python", "train.py"}));
  EXPECT_EQ(run->run.exit_status, 3);
  EXPECT_FALSE(run->partial);
  ASSERT_EQ(run->processes.size(), 1u);
  const ProcessRecord& process = run->processes[0];
  ASSERT_EQ(process.steps.size(), 300u);
  EXPECT_EQ(process.steps[299].sequence, 299u);
  EXPECT_EQ(process.steps[7].flop[0].flop.hardware_flop, 1000u);
  EXPECT_EQ(process.steps[7].flop[0].type, "fp32");
  EXPECT_GE(process.steps[7].duration().count(), 0);
  EXPECT_EQ(hardware_flop(process), 300000u);
  EXPECT_EQ(*process.fact("device"), "cpu");
  EXPECT_FALSE(process.rank.has_value());
  EXPECT_FALSE(process.affinity.empty());
}

TEST(Run, is_readable_with_nobody_ever_draining) {
  Folder folder;
  RunPlaces places = places_in(folder);
  EXPECT_TRUE(end_child(stepping_child(places, 40)));
  auto run = read_run(places.directory);
  ASSERT_TRUE(run.has_value());
  ASSERT_EQ(run->processes.size(), 1u);
  EXPECT_EQ(run->processes[0].steps.size(), 40u);
  EXPECT_EQ(hardware_flop(run->processes[0]), 40000u);
  std::filesystem::remove_all(places.region_folder);
}

TEST(Run, counts_forked_children_once_each) {
  Folder folder;
  RunPlaces places = places_in(folder);
  EXPECT_TRUE(in_child([&] {
    Recorder& recorder = Recorder::process();
    recorder.start({.folder = places.region_folder});
    unsigned mm = recorder.operator_id("aten::mm"), fp32 = recorder.type_id("fp32");
    one_step(recorder, mm, fp32, 10);
    for (int i = 0; i < 3; ++i) {
      pid_t child = begin_child([&] {
        if (recorder.region() != nullptr) _exit(1);  // a child that counts nothing has no region
        std::thread([&] { one_step(recorder, mm, fp32, 5); }).join();
        one_step(recorder, mm, fp32, 2);
      });
      if (!end_child(child)) _exit(2);
    }
    if (!in_child([] {})) _exit(3);
    one_step(recorder, mm, fp32, 10);
  }));
  Drainer drainer(places);
  drainer.finish();
  RunRecord run = drainer.record();
  std::multiset<std::uint64_t> sums;
  for (const ProcessRecord& each : run.processes) sums.insert(hardware_flop(each).low());
  EXPECT_EQ(sums, (std::multiset<std::uint64_t>{7000, 7000, 7000, 20000}));
}

// A step is acknowledged if its call returned and the process said so over a pipe.
struct Victim {
  pid_t pid = 0;
  int acknowledged = -1;  // read end
};

Victim begin_victim(const RunPlaces& places) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  pid_t child = begin_child([&] {
    Recorder& recorder = Recorder::process();
    if (!recorder.start({.folder = places.region_folder})) _exit(1);
    unsigned mm = recorder.operator_id("aten::mm"), fp32 = recorder.type_id("fp32");
    for (std::uint64_t step = 0;; ++step) {
      one_step(recorder, mm, fp32, 3);
      if (write(ends[1], &step, sizeof step) != sizeof step) _exit(2);
      usleep(100);
    }
  });
  close(ends[1]);
  return {child, ends[0]};
}

// The last step that the dead victim acknowledged in the pipe; ~0 if it acknowledged none.
std::uint64_t last_acknowledged(int descriptor, std::uint64_t so_far) {
  std::uint64_t step = so_far, each = 0;
  while (read(descriptor, &each, sizeof each) == sizeof each) step = each;
  return step;
}

TEST(Run, keeps_every_acknowledged_step_through_kill9) {
  std::mt19937 random(5);
  constexpr int kRounds = 25, kRanks = 8;  // 200 victims
  int killed = 0;
  for (int round = 0; round < kRounds; ++round) {
    Folder folder;
    RunPlaces places = places_in(folder);
    std::vector<Victim> victims;
    for (int i = 0; i < kRanks; ++i) victims.push_back(begin_victim(places));
    std::vector<std::uint64_t> acknowledged(kRanks, ~0ull);
    Drainer drainer(places);
    for (int i = 0; i < kRanks; ++i) {
      // In some rounds nobody drains until all victims are dead.
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      if (round % 4 != 0) drainer.drain();
      for (int other = i; other < kRanks; ++other) {
        // Keep reading: if the pipe fills, the victims stop.
        pollfd ready{victims[other].acknowledged, POLLIN, 0};
        while (poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0) {
          std::uint64_t steps[512];
          ssize_t size = read(victims[other].acknowledged, steps, sizeof steps);
          if (size < 8) break;
          acknowledged[other] = steps[size / 8 - 1];
        }
      }
      if (i % 3 == 0) {
        EXPECT_TRUE(read_run(places.directory).has_value());
      }
      kill(victims[i].pid, SIGKILL);
    }
    std::map<std::uint32_t, std::uint64_t> last;  // by pid
    for (int i = 0; i < kRanks; ++i) {
      int status = 0;
      waitpid(victims[i].pid, &status, 0);
      killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 1 : 0;
      last[victims[i].pid] = last_acknowledged(victims[i].acknowledged, acknowledged[i]);
      close(victims[i].acknowledged);
    }
    if (round % 3 != 0) drainer.finish();  // otherwise only the reader comes
    auto run = read_run(places.directory);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    for (const auto& [pid, step] : last) {
      if (step == ~0ull) continue;
      auto is_it = [&](const ProcessRecord& each) { return each.pid == pid; };
      auto found = std::find_if(run->processes.begin(), run->processes.end(), is_it);
      ASSERT_NE(found, run->processes.end());
      std::uint64_t there = 0;
      for (const Step& each : found->steps) there += each.sequence <= step ? 1 : 0;
      EXPECT_GE(there + found->steps_dropped, step + 1);
    }
    std::filesystem::remove_all(places.region_folder);
  }
  EXPECT_EQ(killed, kRounds * kRanks);
}

TEST(Drainer, holds_in_memory_what_a_full_disk_refuses) {
  Folder folder;
  RunPlaces places = places_in(folder);
  EXPECT_TRUE(end_child(stepping_child(places, 2000)));
  EXPECT_TRUE(in_child([&] {
    rlimit little{8192, 8192};
    setrlimit(RLIMIT_FSIZE, &little);
    Drainer drainer(places);
    drainer.drain();
    if (drainer.problems().size() != 1) _exit(1);
    drainer.finish();
    RunRecord run = drainer.record();
    if (run.processes.size() != 1 || run.processes[0].steps.size() != 2000) _exit(2);
    if (hardware_flop(run.processes[0]) != 2000000) _exit(3);
    if (drainer.recent().processes[0].steps.back().sequence != 1999) _exit(4);
  }));
  // The part that reached the disk is a whole prefix; the rest is still in the region.
  auto run = read_run(places.directory);
  ASSERT_TRUE(run.has_value());
  EXPECT_TRUE(run->partial);
  EXPECT_LT(run->processes[0].steps.size(), 2000u);
  EXPECT_GT(run->processes[0].steps.size(), 50u);
  EXPECT_EQ(hardware_flop(run->processes[0]), 2000000u);
  std::filesystem::remove_all(places.region_folder);
}

TEST(Drainer, goes_on_when_its_directory_is_deleted) {
  Folder folder;
  RunPlaces places = places_in(folder);
  EXPECT_TRUE(end_child(stepping_child(places, 100)));
  Drainer drainer(places);
  drainer.drain();
  std::filesystem::remove_all(places.directory);
  EXPECT_TRUE(end_child(stepping_child(places, 50)));
  drainer.drain();
  EXPECT_EQ(drainer.problems().size(), 1u);  // the second file has no folder to be in
  RunRecord run = drainer.record();
  ASSERT_EQ(run.processes.size(), 2u);
  EXPECT_EQ(run.processes[0].steps.size() + run.processes[1].steps.size(), 150u);
  std::filesystem::remove_all(places.region_folder);
}

TEST(Drainer, is_one_a_folder) {
  Folder folder;
  RunPlaces places = places_in(folder);
  EXPECT_TRUE(end_child(stepping_child(places, 10)));
  Drainer first(places), second(places);
  first.drain();
  second.finish();
  EXPECT_TRUE(second.record().processes.size() == 1);  // reading still works
  first.finish();
  EXPECT_EQ(first.record().processes[0].steps.size(), 10u);
}

TEST(CreateRun, puts_an_earlier_run_aside_and_joins_one_under_way) {
  Folder folder;
  RunPlaces first = places_in(folder), second = places_in(folder);
  EXPECT_NE(first.file, second.file);  // the same launcher is alive, so it joins
  ASSERT_TRUE(close_run(first, {}).has_value());
  ASSERT_TRUE(close_run(second, {}).has_value());
  RunPlaces third = places_in(folder);
  EXPECT_EQ(third.file, first.file);
  EXPECT_TRUE(read_run(third.directory + "/earlier-1").has_value());
  for (const RunPlaces& places : {first, second, third}) {
    std::filesystem::remove_all(places.region_folder);
  }
}

TEST(CreateRun, falls_back_where_it_may_not_write) {
  auto places = create_run("/proc/mfu-run", {"true"});
  ASSERT_TRUE(places.has_value());
  ASSERT_EQ(places->notes.size(), 1u);
  EXPECT_NE(places->notes[0].find("/proc/mfu-run"), std::string::npos);
  std::filesystem::remove_all(places->directory);
  std::filesystem::remove_all(places->region_folder);
}

// Another user of the machine could prepare such a link before root runs mfu.
TEST(CreateRun, does_not_write_through_a_link_that_somebody_laid_out) {
  Folder folder, elsewhere;
  setenv("TMPDIR", folder.path().c_str(), 1);
  std::string trap = folder.path() + "/mfu-runs-" + std::to_string(getuid());
  std::filesystem::create_symlink(elsewhere.path(), trap);
  auto places = create_run("/proc/mfu-run", {"true"});
  unsetenv("TMPDIR");
  ASSERT_TRUE(places.has_value());
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere.path()));
  EXPECT_TRUE(places->directory.starts_with(trap + "-"));
  ASSERT_EQ(places->notes.size(), 2u);
  EXPECT_NE(places->notes[0].find(trap + " is not used: it is a symbolic link"), std::string::npos);
  std::filesystem::remove_all(places->region_folder);
}

TEST(ReadRun, says_what_is_not_there) {
  EXPECT_EQ(read_run("/no/such/run").error().code, ErrorCode::not_found);
  Folder folder;
  EXPECT_EQ(read_run(folder.path()).error().code, ErrorCode::malformed);
}

// Cuts the file of a run of 300 steps at every length and changes every byte. Reading it must never
// crash and never give a step that was not there.
TEST(ReadRun, survives_damage) {
  Folder folder;
  RunPlaces places = places_in(folder);
  EXPECT_TRUE(end_child(stepping_child(places, 300)));
  Drainer drainer(places);
  drainer.finish();
  std::string path;
  for (const auto& file : std::filesystem::directory_iterator(places.directory)) {
    if (file.path().extension() == ".steps") path = file.path();
  }
  std::string bytes = read_file(path).value();
  auto steps_of = [](const std::string& damaged, std::vector<std::string>& damage) {
    ProcessRecord process;
    decode_process(damaged, "x.steps", process, damage);
    for (const Step& step : process.steps) EXPECT_LT(step.sequence, 300u);
    return process.steps.size();
  };
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    std::vector<std::string> damage;
    EXPECT_LE(steps_of(bytes.substr(0, size), damage), 300u);
  }
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    std::vector<std::string> damage;
    std::size_t steps = steps_of(damaged, damage);
    EXPECT_FALSE(damage.empty()) << "byte " << i;
    EXPECT_TRUE(steps == 300 || steps == 256 || steps == 44) << steps;  // 256 records a frame
  }
}

// A file in which the records of a killed drainer stand twice and out of order, with damage between
// them.
TEST(ReadRun, hands_over_one_step_at_a_time_what_it_reads_whole) {
  Folder folder;
  RunPlaces places = places_in(folder);
  EXPECT_TRUE(end_child(stepping_child(places, 500)));
  EXPECT_TRUE(end_child(stepping_child(places, 7)));
  Drainer(places).finish();
  for (const auto& entry : std::filesystem::directory_iterator(places.directory)) {
    if (entry.path().extension() != ".steps") continue;
    std::string bytes = *read_file(entry.path());
    std::string frames = bytes.substr(kFileMagic.size());
    ASSERT_TRUE(write_file(entry.path(), bytes + "damage" + frames + frames).has_value());
  }
  Result<RunRecord> whole = read_run(places.directory);
  Result<RunSteps> run = open_run(places.directory);
  ASSERT_TRUE(whole.has_value() && run.has_value());
  EXPECT_EQ(run->record.notes, whole->notes);
  EXPECT_TRUE(run->record.partial);
  ASSERT_EQ(run->record.processes.size(), 2u);
  std::vector<std::vector<std::uint64_t>> read(2);
  Result<void> done = run->read([&](std::size_t process, const Step& step) -> Result<void> {
    const Step& same = whole->processes[process].steps.at(read[process].size());
    EXPECT_EQ(step.sequence, same.sequence);
    EXPECT_EQ(step.end, same.end);
    read[process].push_back(step.sequence);
    return {};
  });
  ASSERT_TRUE(done.has_value());
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(run->record.processes[i].steps.empty());
    EXPECT_EQ(run->record.processes[i].last, whole->processes[i].last);
    EXPECT_EQ(read[i].size(), whole->processes[i].steps.size());
  }
  int taken = 0;
  done = run->read([&](std::size_t, const Step&) -> Result<void> {
    return ++taken == 3 ? fail(ErrorCode::io, "no more") : Result<void>();
  });
  EXPECT_EQ(done.error().message, "no more");
  EXPECT_EQ(taken, 3);
}

TEST(CreateRun, does_not_keep_credentials_of_the_command_line) {
  Folder folder;
  std::string key = "hf_" + std::string("aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzA");
  auto places =
      create_run(folder.path() + "/run", {"python", "t.py", "--hub-token", key, "HF_TOKEN=" + key});
  ASSERT_TRUE(places.has_value());
  EXPECT_EQ(read_file(places->file).value().find(key), std::string::npos);
  std::vector<std::string> kept = {"python", "t.py", "--hub-token", "[hidden]",
                                   "HF_TOKEN=[hidden]"};
  EXPECT_EQ(read_run(places->directory)->run.command, kept);
  ASSERT_TRUE(close_run(*places, {}).has_value());
  EXPECT_EQ(read_file(places->file).value().find(key), std::string::npos);
  std::filesystem::remove_all(places->region_folder);
}

}  // namespace
}  // namespace mfu
