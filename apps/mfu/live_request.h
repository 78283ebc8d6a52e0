// Asks a running program, from outside, to profile a few steps. The question is a file in the run
// directory, and the launcher passes it on to the program. No signal and no port is used.
#pragma once

#include <mfu/mfu.h>

#include <chrono>
#include <string>

#include "record/drain.h"

namespace mfu::app {

// The launcher's side: takes the questions in the directory, asks the processes, and writes down
// which processes it asked.
void carry_requests(const std::string& directory, Drainer& drainer);

// The asking side: asks, and waits for the windows. Fails with `invalid_argument` if the run has
// ended, and with `not_found` if nobody answers in time; the message gives the reason if it is
// known.
struct LiveQuestion {
  std::string directory;
  std::uint64_t steps = 3;
  std::chrono::milliseconds patience{};
};
Result<std::vector<ProfiledWindow>> ask_for_windows(const LiveQuestion& question);

}  // namespace mfu::app
