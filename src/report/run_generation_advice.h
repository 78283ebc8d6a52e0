// Says what to change first in a program that generates: its batch, how sequences share it, and
// what runs it.
#pragma once

#include <chrono>

#include "mfu/run.h"

namespace mfu {

// Adds to `findings` and ranks them again. `time` is the sum over everything that was kept.
void add_generation_findings(RunReport& report, std::chrono::nanoseconds time);

// Notes why there is no MBU, or why it is above 1.
void add_generation_notes(RunReport& report);

}  // namespace mfu
