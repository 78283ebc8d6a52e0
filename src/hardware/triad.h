// Memory bandwidth by STREAM's triad on every core.
#pragma once

#include <vector>

#include "hardware/cpu.h"

namespace mfu {

// Bytes per second of every pass made within about that time, 24 an element.
std::vector<double> triad_byte_rates(const CpuShare& share, double seconds);

}  // namespace mfu
