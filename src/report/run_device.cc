#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "mfu/machine.h"
#include "mfu/run.h"
#include "report/run_devices.h"

namespace mfu {

namespace {

// The processes that trained. If none did, all that counted anything.
std::vector<const ProcessRecord*> workers(const RunRecord& record) {
  std::vector<const ProcessRecord*> stepping, counting;
  for (const ProcessRecord& each : record.processes) {
    if (!each.steps.empty()) stepping.push_back(&each);
    if (!each.totals.empty()) counting.push_back(&each);
  }
  return stepping.empty() ? counting : stepping;
}

RunDevice processor(const std::vector<const ProcessRecord*>& processes) {
  RunDevice result;
  std::set<std::uint32_t> cpus;
  std::set<std::string> hosts;
  for (const ProcessRecord* each : processes) {
    if (hosts.empty() || hosts.contains(each->host)) {
      cpus.insert(each->affinity.begin(), each->affinity.end());
    }
    hosts.insert(each->host);
  }
  FoundDevice found = detect_cpu({cpus.begin(), cpus.end()});
  result.name = found.driver_name;
  result.devices = std::max<std::size_t>(hosts.size(), 1);
  result.notes = found.notes;
  result.device = found.device;
  // A stored ceiling is valid for the cores that this process may use, and for no others.
  bool same_cores = found.driver_name == detect_cpu().driver_name;
  if (same_cores) result.ceiling = stored_ceiling(found);
  if (result.ceiling && result.device) {
    result.device = with_measured_peak(*result.device, *result.ceiling);
  }
  if (processes.size() > 1) {
    result.notes.push_back({hosts.size() > 1 ? "processors_shared" : "processor_shared",
                            {{"processes", static_cast<std::int64_t>(processes.size())}}});
  }
  if (hosts.size() > 1) {
    result.notes.push_back(
        {"hosts_like_this", {{"hosts", static_cast<std::int64_t>(hosts.size())}}});
  }
  return result;
}

// The accelerators in use, each once, in the order of the processes.
std::vector<DeviceUse> accelerators_of(const std::vector<const ProcessRecord*>& processes) {
  std::vector<DeviceUse> found;
  for (const ProcessRecord* process : processes) {
    for (DeviceUse& use : uses_of(*process)) {
      auto same = [&](const DeviceUse& each) { return each.key == use.key; };
      if (use.is_accelerator() && std::none_of(found.begin(), found.end(), same)) {
        found.push_back(std::move(use));
      }
    }
  }
  return found;
}

std::vector<const ProcessRecord*> all_of(const RunRecord& record) {
  std::vector<const ProcessRecord*> all;
  for (const ProcessRecord& each : record.processes) all.push_back(&each);
  return all;
}

// A processor beside accelerators: its FLOPs are compared with its own peak and are no part of the
// run's MFU.
void add_processors(const std::vector<const ProcessRecord*>& processes, RunDevice& result) {
  std::optional<RunDevice> found;
  for (const ProcessRecord* process : processes) {
    for (const DeviceUse& use : uses_of(*process)) {
      auto same = [&](const UsedDevice& each) { return each.key == use.key; };
      if (use.is_accelerator() || std::any_of(result.used.begin(), result.used.end(), same)) {
        continue;
      }
      if (!found) found = processor(processes);
      result.used.push_back({use.key, found->name, found->device, false});
    }
  }
}

// Each accelerator is identified by what it says about itself, or all of them by the given name.
void add_accelerators(const std::vector<DeviceUse>& accelerators, const Catalog& catalog,
                      RunDevice& result) {
  std::set<std::string> devices;
  auto note = [&](const Note& each) {
    if (std::find(result.notes.begin(), result.notes.end(), each) == result.notes.end()) {
      result.notes.push_back(each);
    }
  };
  bool given = result.device.has_value();
  for (const DeviceUse& each : accelerators) {
    result.used.push_back({each.key, each.name, result.device});
    if (given) continue;
    Result<Device> device = identify_device(catalog, each.traits);
    devices.insert(device.has_value() ? device->name : each.name);
    if (!device.has_value()) {
      note({"no_mfu_because", {{"why", device.error().message}}});
      continue;
    }
    for (const Note& said : device->notes) note(said);
    result.used.back().device = *device;
  }
  if (devices.size() == 1) result.device = result.used.front().device;
}

}  // namespace

Result<RunDevice> device_of_run(const RunRecord& record, const Catalog& catalog,
                                const std::string& name) {
  std::vector<const ProcessRecord*> processes = workers(record);
  std::vector<DeviceUse> accelerators = accelerators_of(processes);
  if (accelerators.empty()) accelerators = accelerators_of(all_of(record));
  RunDevice result;
  result.devices = std::max<std::size_t>(accelerators.size(), 1);
  if (!name.empty() && name != "cpu") {
    result.device = MFU_TRY(find_device(catalog, name));
    result.name = result.device->name;
  } else if (accelerators.empty()) {
    if (processes.empty() && name.empty()) return result;  // nothing ran on anything
    return processor(processes);
  } else if (name == "cpu") {
    return processor(processes);
  }
  if (accelerators.empty()) {
    std::set<std::string> hosts;
    for (const ProcessRecord* each : processes) hosts.insert(each->host);
    result.devices = std::max<std::size_t>(hosts.size(), 1);
    return result;
  }
  std::set<std::string> names;
  for (const DeviceUse& each : accelerators) names.insert(each.name);
  if (result.name.empty()) result.name = fmt::format("{}", fmt::join(names, ", "));
  add_accelerators(accelerators, catalog, result);
  add_processors(all_of(record), result);
  return result;
}

}  // namespace mfu
