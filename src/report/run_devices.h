// The devices that a run's operators ran on. FLOPs belong to the device of their operands and are
// compared with that device's own peak. The run's MFU is over the accelerators; a CPU counts only
// if it alone was used.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mfu/run.h"
#include "report/run_steps.h"

namespace mfu {

using FlopByType = std::map<std::string, CountedFlop>;

void add(CountedFlop& to, const CountedFlop& more);

// One device, as one process used it.
struct DeviceUse {
  std::string place;  // "cuda:0", "cpu"
  std::string name;   // as its driver names it; `place` if the driver did not say
  std::string identity;
  DeviceTraits traits;  // what it says of itself
  std::string key;      // the same for processes on the same device
  FlopByType flop;
  bool is_accelerator() const { return place != "cpu"; }
};
// Sorted: accelerators before the CPU, most FLOPs first. Never empty. FLOPs that no finished pass
// holds belong to the first device. An older observer only said what the process ran on.
std::vector<DeviceUse> uses_of(const ProcessRecord& process);

bool uses_accelerators(const RunRecord& record);

// Whether events on the device measured the steps of this process.
bool times_by_device(const ProcessRecord& process);
// On an accelerator the host's clock only measures launches. So times that the device did not
// measure are removed from the report, and `report.timing` says so.
void withhold_host_times(const RunRecord& record, RunReport& report);

// Divides FLOPs of a process among its devices, in the proportion of its whole FLOPs of each type.
std::map<std::string, FlopByType> shared_out(const FlopByType& flop,
                                             const std::vector<DeviceUse>& uses);

// What the kept steps did on one device.
struct DeviceKept {
  FlopByType flop;
  std::vector<Interval> intervals;  // of the ranks on it
};
using KeptByDevice = std::map<std::string, DeviceKept>;  // by key

PeakQuestion peak_question(const RunQuestion& question, const std::string& key);

// Utilization over the devices that count. Empty if one of them has no peak.
std::optional<Utilization> utilization_of_devices(const RunRecord& record,
                                                  const RunQuestion& question,
                                                  const KeptByDevice& kept);
// The same, for all FLOPs of the run over its wall time.
std::optional<Utilization> utilization_of_wall(const RunRecord& record, const RunQuestion& question,
                                               std::chrono::nanoseconds wall);

void add_devices(const RunRecord& record, const RunQuestion& question, const KeptByDevice& kept,
                 RunReport& report);

}  // namespace mfu
