// Finds processes of the command that loaded torch but are not observed, and says why and what
// helps. It only reads files in /proc; the processes do not notice.
#pragma once

#include <mfu/record.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mfu::app {

class Unobserved {
 public:
  Unobserved(const RunPlaces& places, std::string inject_folder);

  // Looks at the descendants of this process: every second at first, later every five. May be
  // called more often.
  void look();
  // A sentence for each reason, once the command is over.
  std::vector<std::string> sentences() const;

 private:
  struct Process {
    std::string why;  // empty if no reason can be seen
    std::uint32_t inner_pid = 0;
    std::chrono::steady_clock::time_point first, last;  // when it was seen with torch loaded
  };

  std::string region_folder_, directory_, inject_folder_;
  std::chrono::steady_clock::time_point next_{};
  std::chrono::milliseconds pause_{1000};
  // By pid and start time, because the system may give a pid out again.
  std::map<std::pair<std::uint32_t, std::uint64_t>, Process> with_torch_;
};

}  // namespace mfu::app
