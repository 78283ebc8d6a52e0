// The devices a run's operators ran on: FLOPs belong to the device of their operands, and are held
// against that device's own peak. Accelerators count; a CPU does where it alone was used.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mfu/run.h"
#include "report/run_steps.h"

namespace mfu {

using FlopByType = std::map<std::string, CountedFlop>;

void add(CountedFlop& to, const CountedFlop& more);

// One device of one process.
struct DeviceUse {
  std::string place;  // "cuda:0", "cpu"
  std::string name;   // as its driver has it; the place where nobody said
  std::string identity;
  DeviceTraits traits;  // what it says of itself
  std::string key;      // the same for processes on the same device
  FlopByType flop;
  bool is_accelerator() const { return place != "cpu"; }
};
// Most FLOPs first, accelerators before the CPU; never empty. What no finished pass holds belongs
// to the first. An older observer's process: what it said it ran on.
std::vector<DeviceUse> uses_of(const ProcessRecord& process);

bool uses_accelerators(const RunRecord& record);

// Whether its steps were timed by events on its device.
bool times_by_device(const ProcessRecord& process);
// On accelerators a host's clock tells how long launches took: what was not timed by the device is
// not known. Says so in `report.timing`.
void withhold_host_times(const RunRecord& record, RunReport& report);

// FLOPs of a process, shared among its devices as its whole FLOPs of each type are.
std::map<std::string, FlopByType> shared_out(const FlopByType& flop,
                                             const std::vector<DeviceUse>& uses);

// What the steps that are kept did to one device.
struct DeviceKept {
  FlopByType flop;
  std::vector<Interval> intervals;  // of the ranks on it
};
using KeptByDevice = std::map<std::string, DeviceKept>;  // by key

PeakQuestion peak_question(const RunQuestion& question, const std::string& key);

// Over the devices that count. None where one of them has no peak.
std::optional<Utilization> utilization_of_devices(const RunRecord& record,
                                                  const RunQuestion& question,
                                                  const KeptByDevice& kept);
// The same for all FLOPs of the run in its wall time.
std::optional<Utilization> utilization_of_wall(const RunRecord& record, const RunQuestion& question,
                                               std::chrono::nanoseconds wall);

void add_devices(const RunRecord& record, const RunQuestion& question, const KeptByDevice& kept,
                 RunReport& report);

}  // namespace mfu
