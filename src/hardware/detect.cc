#include <fmt/format.h>

#include "base/text.h"
#include "hardware/driver.h"
#include "mfu/machine.h"

namespace mfu {

namespace {

// Looks up a device that the driver named. A partition of an AMD GPU has the name of the whole GPU.
void look_up(const Catalog& catalog, FoundDevice& found) {
  if (found.driver_name.empty()) {
    found.driver_name = "a device without a name";
    found.notes.push_back({"driver_gives_no_name", {}});
    return;
  }
  std::string name = found.driver_name;
  bool whole = found.partition.empty() || to_lower(found.partition) == "spx";
  bool named = to_lower(name).find(to_lower(found.partition)) != std::string::npos;
  if (!whole && !named) name += " " + found.partition;
  Result<Device> device = find_device(catalog, name);
  if (device.has_value()) {
    found.device = device.value();
  } else {
    found.notes.push_back({"no_peak_because", {{"why", device.error().message}}});
  }
}

// AMD SMI names devices and partitions; ROCm SMI knows clocks and power caps. The PCI address tells
// that both mean the same card.
void complete_from(const std::vector<FoundDevice>& others, FoundDevice& found) {
  for (const FoundDevice& other : others) {
    if (found.pci.empty() || other.pci != found.pci) continue;
    if (!found.clock_hz) found.clock_hz = other.clock_hz;
    if (!found.clock_most_hz) found.clock_most_hz = other.clock_most_hz;
    if (!found.power_limit_w) found.power_limit_w = other.power_limit_w;
    if (found.uuid.empty()) found.uuid = other.uuid;
  }
}

}  // namespace

Machine detect_machine(const Catalog& catalog, Diagnostics& diagnostics) {
  Machine machine;
  std::vector<DriverAnswer> answers =
      ask_drivers({nvml_driver(), amd_smi_driver(), rocm_smi_driver()}, diagnostics);
  DriverAnswer& amd_smi = answers[1];
  DriverAnswer& rocm_smi = answers[2];
  for (FoundDevice& found : amd_smi.devices) complete_from(rocm_smi.devices, found);
  if (!amd_smi.devices.empty()) rocm_smi.devices.clear();  // the same cards
  for (DriverAnswer& answer : answers) {
    machine.probes.push_back(answer.probe);
    for (FoundDevice& found : answer.devices) {
      look_up(catalog, found);
      machine.devices.push_back(std::move(found));
    }
  }
  machine.devices.push_back(detect_cpu());
  const FoundDevice& cpu = machine.devices.back();
  machine.probes.push_back({"processor", cpu.device.has_value(), cpu.driver_name,
                            cpu.device ? "" : "its instruction set is not known: give its peak"});
  return machine;
}

}  // namespace mfu
