// Measures memory bandwidth with STREAM's triad on every core.
#pragma once

#include <vector>

#include "hardware/cpu.h"

namespace mfu {

// Bytes per second of every pass made within about that time, at 24 bytes per element.
std::vector<double> triad_byte_rates(const CpuShare& share, double seconds);

}  // namespace mfu
