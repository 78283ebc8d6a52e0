// Processes of the command that loaded torch and are not observed, found from outside by /proc:
// why, and what helps. Reads files of /proc only; the processes themselves notice nothing.
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

  // Looks at the processes below this one: every second at first, later every five.
  void look();
  // A sentence for each reason, once the command is over.
  std::vector<std::string> sentences() const;

 private:
  struct Process {
    std::string why;  // empty: nothing stands in the way, as far as can be seen
    std::uint32_t inner_pid = 0;
    std::chrono::steady_clock::time_point first, last;  // seen with torch loaded
  };

  std::string region_folder_, directory_, inject_folder_;
  std::chrono::steady_clock::time_point next_{};
  std::chrono::milliseconds pause_{1000};
  // By pid and start: a number may be given out again.
  std::map<std::pair<std::uint32_t, std::uint64_t>, Process> with_torch_;
};

}  // namespace mfu::app
