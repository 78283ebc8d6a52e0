// Phases of a run in words.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mfu/run.h"

namespace mfu {

// Label and text of each line: what the time went to, then each phase of generation. Empty where
// the run only trained.
std::vector<std::pair<std::string, std::string>> phase_lines(const RunReport& report);
// What a program without steps is doing, for the line that is shown while it runs; empty: nothing
// yet.
std::string live_phases(const RunReport& report);

}  // namespace mfu
