// The processor's peak, from its instruction set and a measured clock.
#pragma once

#include <string>

#include "hardware/cpu.h"
#include "mfu/hardware.h"

namespace mfu {

struct CpuClock {
  double cores = 0;         // how many may run at once
  double all_cores_hz = 0;  // sum of their clocks
  int pipes = 1;            // FMA pipes (or pairs of multiply and add pipes) per core, as measured
  std::string how;          // "measured", "in FMA bursts"
};

// Takes a few milliseconds on every core.
CpuClock measure_cpu_clock(const CpuIdentity& cpu, const CpuShare& share);

// Replaces the device's peaks.
void set_cpu_peaks(Device& device, const CpuIdentity& cpu, const CpuClock& clock);

}  // namespace mfu
