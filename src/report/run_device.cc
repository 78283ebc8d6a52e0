#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "mfu/machine.h"
#include "mfu/run.h"
#include "report/run_steps.h"

namespace mfu {

namespace {

// Those that trained; where none did, all that counted anything.
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
  // A stored ceiling is of the cores this process may use; of others it says nothing.
  bool same_cores = found.driver_name == detect_cpu().driver_name;
  if (same_cores) result.ceiling = stored_ceiling(found);
  if (result.ceiling && result.device) {
    result.device = with_measured_peak(*result.device, *result.ceiling);
  }
  if (processes.size() > 1) {
    result.notes.push_back(fmt::format(
        "{} processes share {}: one device, with the peak of all cores they may use",
        processes.size(), hosts.size() > 1 ? "a processor each host" : "one processor"));
  }
  if (hosts.size() > 1) {
    result.notes.push_back(fmt::format(
        "{} hosts: the peak of the others' processors is taken to be this one's", hosts.size()));
  }
  return result;
}

std::uint64_t count_devices(const std::vector<const ProcessRecord*>& processes) {
  std::set<std::string> seen;
  for (const ProcessRecord* each : processes) seen.insert(device_key(*each));
  return std::max<std::size_t>(seen.size(), 1);
}

}  // namespace

Result<RunDevice> device_of_run(const RunRecord& record, const Catalog& catalog,
                                const std::string& name) {
  std::vector<const ProcessRecord*> processes = workers(record);
  RunDevice result;
  if (!name.empty() && name != "cpu") {
    result.device = MFU_TRY(find_device(catalog, name));
    result.name = result.device->name;
    result.devices = count_devices(processes);
    return result;
  }
  if (processes.empty() && name.empty()) return result;  // nothing ran on anything
  std::set<std::string> names;
  for (const ProcessRecord* each : processes) names.insert(device_name(*each));
  if (!name.empty() || names.empty() || (names.size() == 1 && names.contains("cpu"))) {
    return processor(processes);
  }
  result.devices = count_devices(processes);
  result.name = *names.begin();
  if (names.size() > 1) {
    result.notes.push_back(
        fmt::format("ranks ran on different devices ({}): no one peak holds, "
                    "give --peak or --device",
                    fmt::join(names, ", ")));
    return result;
  }
  Result<Device> device = find_device(catalog, result.name);
  if (device.has_value()) {
    result.device = *device;
  } else {
    result.notes.push_back("no MFU: " + device.error().message);
  }
  return result;
}

}  // namespace mfu
