// Ends a command once its ranks have taken the steps of --steps. Each rank ends itself after its
// last step. This class ends the processes that remain: first with SIGTERM, then with SIGKILL.
#pragma once

#include <mfu/record.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>

namespace mfu::app {

class Stopper {
 public:
  struct Question {
    pid_t command = -1;
    std::string region_folder;
    std::chrono::milliseconds grace{};
  };
  explicit Stopper(Question question) : question_(std::move(question)) {}

  // Call it regularly while the command runs.
  void look(const RunRecord& recent);

 private:
  void end_the_rest();

  Question question_;
  // When all ranks had taken their steps, and when all had ended.
  std::optional<std::chrono::steady_clock::time_point> begun_, gone_;
  std::set<pid_t> stopped_;  // ranks that end themselves
  std::set<pid_t> asked_;    // processes that got SIGTERM
};

}  // namespace mfu::app
