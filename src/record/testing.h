// What the tests of this folder share: work in separate processes, because a process has only one
// recorder, and folders that are deleted at the end.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "mfu/record.h"
#include "record/recorder.h"

namespace mfu::testing {

class Folder {
 public:
  Folder() {
    std::string path = std::filesystem::temp_directory_path() / "mfu-record-XXXXXX";
    path_ = mkdtemp(path.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Starts a child that does `work` and then ends like a killed process, without saying goodbye.
// Returns its pid.
inline pid_t begin_child(const std::function<void()>& work) {
  pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  return child;
}

// Returns true if the child ended by itself.
inline bool end_child(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

inline bool in_child(const std::function<void()>& work) {
  return end_child(begin_child(work));
}

// Takes one step with so many calls of 1000 FLOP each.
inline void one_step(Recorder& recorder, unsigned operator_id, unsigned type_id, int calls = 1) {
  for (int i = 0; i < calls; ++i) {
    recorder.count(operator_id, type_id, {.hardware_flop = 1000, .model_flop = 900, .bytes = 8});
  }
  recorder.end_step({});
}

inline FlopCount hardware_flop(const ProcessRecord& process) {
  FlopCount sum;
  for (const OperatorTotal& total : process.totals) sum += total.flop.hardware_flop;
  return sum;
}

inline RunPlaces places_in(const Folder& folder) {
  Result<RunPlaces> places = create_run(folder.path() + "/run", {"python", "train.py"});
  if (!places.has_value()) std::abort();
  return places.value();
}

}  // namespace mfu::testing
