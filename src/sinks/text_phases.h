// Describes the phases of a run in words.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mfu/run.h"

namespace mfu {

// Label and text of each line: first what the time went to, then each phase of generation. Empty if
// the run only trained.
std::vector<std::pair<std::string, std::string>> phase_lines(const RunReport& report);
// What a program without steps is doing, for the live line. Empty if it has done nothing yet.
std::string live_phases(const RunReport& report);

}  // namespace mfu
