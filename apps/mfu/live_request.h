// A window of a program that runs, asked for from outside: a file in the run directory, which the
// launcher carries to the program. No signal, no port.
#pragma once

#include <mfu/mfu.h>

#include <chrono>
#include <string>

namespace mfu::app {

// The launcher's side: takes what lies there, asks the processes, and says whom it asked.
void carry_requests(const std::string& directory, Drainer& drainer);

// The other side: asks, and waits for the windows. `invalid_argument` where the run has ended,
// `not_found` where nobody answers in time, with the reason as far as it is known.
struct LiveQuestion {
  std::string directory;
  std::uint64_t steps = 3;
  std::chrono::milliseconds patience{};
};
Result<std::vector<ProfiledWindow>> ask_for_windows(const LiveQuestion& question);

}  // namespace mfu::app
