#include "mfu/report.h"

namespace mfu {

namespace {

// A rate above the peak is a contradiction: either the rate or the peak is wrong. Which one is more
// likely depends on where the peak comes from.
void check_against_peak(DeviceReport& report, const MeasuredReport& line) {
  if (!line.of_peak || line.of_peak->value <= 1) return;
  report.notes.push_back(
      {"measured_above_peak",
       {{"dtype", std::string(name_of(line.measured.precision))},
        {"method", line.measured.method},
        {"fraction", line.of_peak->value},
        {"suspect", report.device.kind == "cpu" ? "measured_clock" : "catalogue_clock"}}});
}

void add_ceiling(DeviceReport& report, const Ceiling& ceiling) {
  for (const std::vector<Measured>* kind : {&ceiling.bursts, &ceiling.measured}) {
    for (const Measured& measured : *kind) {
      MeasuredReport line{measured, std::nullopt};
      const Peak* peak = report.device.peak(measured.precision);
      if (peak != nullptr && measured.rate) line.of_peak = of_peak(*measured.rate, peak->rate);
      if (kind == &ceiling.measured) check_against_peak(report, line);
      if (!measured.why_not.empty()) {
        report.notes.push_back(
            {"not_measured",
             {{"dtype", std::string(name_of(measured.precision))}, {"why", measured.why_not}}});
      }
      report.measured.push_back(std::move(line));
    }
  }
  report.measured_bandwidth = ceiling.bandwidth;
  report.measured_at = ceiling.measured_at;
  report.notes.insert(report.notes.end(), ceiling.notes.begin(), ceiling.notes.end());
}

void add_doubts(DeviceReport& report) {
  std::string types;
  for (const Peak& peak : report.device.peaks) {
    if (peak.confidence != Confidence::unverified || peak.sparse) continue;
    types.append(types.empty() ? "" : ", ").append(name_of(peak.precision));
  }
  if (types.empty()) return;
  report.notes.push_back({"types_unverified", {{"dtypes", types}}});
}

}  // namespace

PeakReport report_devices(const std::vector<Device>& devices) {
  PeakReport report;
  for (const Device& device : devices) {
    DeviceReport& each = report.devices.emplace_back();
    each.device = device;
    each.notes = device.notes;
    if (!device.memory) each.notes.push_back({"memory_not_known", {}});
    if (!device.bandwidth) each.notes.push_back({"bandwidth_not_known", {}});
    add_doubts(each);
  }
  return report;
}

PeakReport report_machine(const Machine& machine,
                          const std::vector<std::optional<Ceiling>>& ceilings) {
  PeakReport report;
  for (std::size_t i = 0; i < machine.devices.size(); ++i) {
    const FoundDevice& found = machine.devices[i];
    DeviceReport& each = report.devices.emplace_back();
    each.found = found;
    if (found.device) {
      each.device = *found.device;
      each.notes = each.device.notes;
    } else {
      each.device.name = found.driver_name;
      each.device.kind = "gpu";
      each.device.unit = "gpu";
      each.device.memory = found.memory;
    }
    each.notes.insert(each.notes.end(), found.notes.begin(), found.notes.end());
    add_doubts(each);
    if (i < ceilings.size() && ceilings[i]) add_ceiling(each, *ceilings[i]);
  }
  return report;
}

}  // namespace mfu
