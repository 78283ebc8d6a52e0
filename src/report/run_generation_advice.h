// What to change first where a program generates: its batch, how sequences share it, what runs it.
#pragma once

#include <chrono>

#include "mfu/run.h"

namespace mfu {

// Adds to `findings` and ranks them again. `time`: of all that was kept.
void add_generation_findings(RunReport& report, std::chrono::nanoseconds time);

// Why there is no MBU, or one above 1.
void add_generation_notes(RunReport& report);

}  // namespace mfu
