// Ends a command once its ranks have taken the steps they were asked for. Each rank ends itself
// where its last step ends; this ends what stays, and in the end by force.
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

  // Now and then, while the command runs.
  void look(const RunRecord& recent);

 private:
  void end_the_rest();

  Question question_;
  std::optional<std::chrono::steady_clock::time_point> begun_, gone_;  // of the ranks
  std::set<pid_t> stopped_;                                            // ranks that end themselves
  std::set<pid_t> asked_;                                              // got SIGTERM
};

}  // namespace mfu::app
