// What is told to people and machines: immutable values, every ratio worked out, every assumption
// beside it. Sinks (mfu/sink.h) only format them.
//
//   mfu::PeakReport report = mfu::report_devices(mfu::match_devices(mfu::Catalog::builtin(),
//   "h100")); std::puts(mfu::to_json(report).c_str());
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mfu/ceiling.h"
#include "mfu/hardware.h"
#include "mfu/machine.h"

namespace mfu {

struct MeasuredReport {
  Measured measured;
  std::optional<Fraction> of_peak;  // none where the type has no peak or nothing was measured
};

struct DeviceReport {
  Device device;
  std::optional<FoundDevice> found;  // on this machine
  std::vector<MeasuredReport> measured;
  std::optional<ByteRate> measured_bandwidth;
  std::string measured_at;
  std::vector<std::string> notes;
};

struct PeakReport {
  std::vector<DeviceReport> devices;
  std::vector<std::string> notes;
};

// Devices of the catalogue.
PeakReport report_devices(const std::vector<Device>& devices);

// This machine's devices, each with the ceiling measured or stored for it, in the order of
// machine.devices.
PeakReport report_machine(const Machine& machine,
                          const std::vector<std::optional<Ceiling>>& ceilings);

struct DoctorReport {
  std::vector<Probe> probes;
};

}  // namespace mfu
