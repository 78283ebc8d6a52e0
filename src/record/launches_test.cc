#include <gtest/gtest.h>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "mfu/record.h"
#include "record/drain.h"
#include "record/job.h"
#include "record/run_folder.h"
#include "record/testing.h"

namespace mfu {
namespace {

using testing::Folder;

class Variables {
 public:
  explicit Variables(std::vector<std::pair<std::string, std::string>> given)
      : given_(std::move(given)) {
    for (const auto& [name, value] : given_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : given_) unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<std::pair<std::string, std::string>> given_;
};

struct JobCase {
  std::vector<std::pair<std::string, std::string>> variables;
  std::string id;
  std::optional<std::uint32_t> task, tasks;
};

TEST(Job, is_told_by_the_variables_of_schedulers) {
  const JobCase cases[] = {
      {{}, "", {}, {}},
      {{{"SLURM_JOB_ID", "77"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "3"},
        {"SLURM_STEP_NUM_TASKS", "4"}},
       "slurm-77.0",
       3,
       4},
      // A batch script knows the number of tasks but is one process.
      {{{"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}, "", {}, {}},
      {{{"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "4294967291"}, {"SLURM_PROCID", "0"}},
       "",
       {},
       {}},
      {{{"PMIX_NAMESPACE", "prterun-a-12@1"},
        {"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"}},
       "mpi-prterun-a-12-1",
       1,
       2},
      {{{"TORCHELASTIC_RUN_ID", "none"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}, "", {}, {}},
      {{{"TORCHELASTIC_RUN_ID", "exp7"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}},
       "torchrun-exp7",
       1,
       2},
      {{{"MFU_RUN_ID", "llama/7b"}, {"MFU_NODE_RANK", "0"}, {"MFU_NODES", "2"}}, "llama-7b", 0, 2}};
  for (const JobCase& each : cases) {
    Variables set(each.variables);
    Job job = job_of_environment();
    EXPECT_EQ(job.id, each.id);
    EXPECT_EQ(job.task, each.task) << each.id;
    EXPECT_EQ(job.tasks, each.tasks) << each.id;
  }
}

RunPlaces launched(const Folder& folder, const std::vector<std::string>& command = {"t.py"}) {
  Result<RunPlaces> places = create_run(folder.path() + "/run", command);
  if (!places.has_value()) std::abort();
  std::filesystem::remove_all(places->region_folder);
  if (!places->spare_folder.empty()) std::filesystem::remove_all(places->spare_folder);
  return places.value();
}

// Acts as another process that is then gone without saying so.
void killed_launcher(const Folder& folder) {
  ASSERT_TRUE(testing::in_child([&] { launched(folder); }));
}

TEST(Launches, a_killed_one_that_is_started_again_is_the_next_attempt_of_the_same_run) {
  Folder folder;
  killed_launcher(folder);
  RunPlaces again = launched(folder);
  EXPECT_EQ(again.attempt, 1u);
  EXPECT_FALSE(again.leftovers.empty());
  EXPECT_FALSE(std::filesystem::exists(again.directory + "/earlier-1"));
  std::vector<Launcher> launchers = launchers_of(again.directory);
  ASSERT_EQ(launchers.size(), 2u);
  EXPECT_TRUE(launchers[0].over && launchers[0].superseded && !launchers[0].ended);
  EXPECT_FALSE(launchers[1].superseded);
}

TEST(Launches, one_that_failed_is_continued_and_one_that_ended_well_is_put_aside) {
  Folder folder;
  RunPlaces first = launched(folder);
  ASSERT_TRUE(close_run(first, RunEnd{.status = 1}).has_value());
  RunPlaces second = launched(folder);
  EXPECT_EQ(second.attempt, 1u);
  ASSERT_TRUE(close_run(second, RunEnd{.status = 0}).has_value());
  RunPlaces third = launched(folder);
  EXPECT_EQ(third.attempt, 0u);
  EXPECT_TRUE(std::filesystem::exists(third.directory + "/earlier-1"));
}

TEST(Launches, another_command_does_not_go_on_with_one_that_failed) {
  Folder folder;
  RunPlaces first = launched(folder);
  ASSERT_TRUE(close_run(first, RunEnd{.status = 1}).has_value());
  EXPECT_EQ(launched(folder, {"other.py"}).attempt, 0u);
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/run/earlier-1"));
}

TEST(Launches, tasks_of_one_job_share_a_directory_and_each_has_a_file_of_its_own) {
  Folder folder;
  std::string here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::set<std::string> directories, files;
  for (const char* task : {"2", "0", "1"}) {
    Variables set({{"SLURM_JOB_ID", "9"},
                   {"SLURM_STEP_ID", "1"},
                   {"SLURM_PROCID", task},
                   {"SLURM_STEP_NUM_TASKS", "3"}});
    Result<RunPlaces> places = create_run("", {"python", "train.py"});
    ASSERT_TRUE(places.has_value());
    directories.insert(places->directory);
    files.insert(places->file);
    // A quick task ends before the next one begins. Both still belong to the same run.
    ASSERT_TRUE(close_run(*places, RunEnd{}).has_value());
  }
  EXPECT_EQ(directories, (std::set<std::string>{folder.path() + "/mfu-runs/train-slurm-9.1"}));
  EXPECT_EQ(files.size(), 3u);
  {  // The same step runs the program again, which makes another run.
    Variables set({{"SLURM_JOB_ID", "9"}, {"SLURM_STEP_ID", "1"}, {"SLURM_PROCID", "0"}});
    Result<RunPlaces> again = create_run("", {"python", "train.py"});
    EXPECT_EQ(again->directory, folder.path() + "/mfu-runs/train-slurm-9.1-2");
  }
  {  // Slurm starts the job again, which makes the next attempt.
    Variables set({{"SLURM_JOB_ID", "9"},
                   {"SLURM_STEP_ID", "1"},
                   {"SLURM_PROCID", "0"},
                   {"SLURM_RESTART_COUNT", "1"}});
    Result<RunPlaces> again = create_run("", {"python", "train.py"});
    EXPECT_EQ(again->directory, folder.path() + "/mfu-runs/train-slurm-9.1");
    EXPECT_EQ(again->attempt, 1u);
  }
  std::filesystem::current_path(here);
}

TEST(Launches, what_a_killed_launcher_left_in_memory_is_carried_by_the_next_one) {
  Folder folder;
  // A launcher that never drains and is itself the observed process.
  ASSERT_TRUE(testing::in_child([&] {
    RunPlaces places = create_run(folder.path() + "/run", {"t.py"}).value();
    Recorder& recorder = Recorder::process();
    recorder.start({.folder = places.region_folder});
    unsigned mm = recorder.operator_id("aten::mm", ""), bf16 = recorder.type_id("bf16");
    for (int i = 0; i < 5; ++i) testing::one_step(recorder, mm, bf16);
  }));
  Result<RunPlaces> again = create_run(folder.path() + "/run", {"t.py"});
  ASSERT_TRUE(again.has_value());
  Drainer drainer(*again);
  drainer.drain();
  drainer.finish();
  RunRecord record = drainer.record();
  ASSERT_EQ(record.processes.size(), 1u);
  EXPECT_EQ(record.processes[0].steps.size(), 5u);
  for (const std::string& leftover : again->leftovers) {
    EXPECT_FALSE(std::filesystem::exists(leftover));
  }
}

}  // namespace
}  // namespace mfu
