// What this machine has: accelerators by their drivers, opened at run time in a process of their
// own, and the CPU within this process's share of it.
//
//   mfu::Diagnostics diagnostics;
//   mfu::Machine machine = mfu::detect_machine(mfu::Catalog::builtin(), diagnostics);
//   for (const mfu::FoundDevice& found : machine.devices) std::puts(found.driver_name.c_str());
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mfu/diagnostics.h"
#include "mfu/hardware.h"

namespace mfu {

struct FoundDevice {
  std::string driver_name;  // as the driver prints it, made safe to print
  std::string source;       // "NVML", "ROCm SMI", "AMD SMI", "CPUID and hwloc"
  std::uint32_t index = 0;  // as that driver counts
  std::string uuid;
  std::string pci;                      // "0000:65:00.0"
  std::optional<Bytes> memory;          // as the driver says
  std::optional<double> clock_hz;       // now
  std::optional<double> clock_most_hz;  // the most it may reach
  std::optional<double> power_limit_w;  // the cap in force
  std::string partition;                // MIG profile or compute partition; empty: the whole device
  std::optional<Device> device;    // what the catalogue knows of it; none: no peak, never a guess
  std::vector<std::string> notes;  // why not, and what to do
};

// What one part of detection found out, for `mfu doctor`.
struct Probe {
  std::string name;     // "NVIDIA driver (NVML)"
  bool works = false;   // it answered
  std::string finding;  // "2 devices, driver 550.54", "libnvidia-ml.so.1 is not there"
  std::string remedy;   // what mends it; empty where nothing needs to
};

struct Machine {
  std::vector<FoundDevice> devices;  // accelerators first, then the CPU
  std::vector<Probe> probes;
};

// Asks the vendors' libraries (each may take two seconds, side by side) and the processor. A driver
// that crashes, hangs or lies costs one warning. $MFU_NVML, $MFU_ROCM_SMI and $MFU_AMD_SMI name
// another library.
Machine detect_machine(const Catalog& catalog, Diagnostics& diagnostics);

// The parts beside the drivers: matrix libraries, PyTorch of that interpreter, hardware counters, a
// foreign package of our name.
std::vector<Probe> probe_parts(const std::string& python);

// The processor alone: cores × FLOP per cycle × measured clock, for the cores this process may use,
// or for those of the given CPUs (operating-system numbers) where any are.
FoundDevice detect_cpu(const std::vector<std::uint32_t>& cpus = {});

}  // namespace mfu
