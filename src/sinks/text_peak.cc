#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "mfu/sink.h"
#include "sinks/table.h"

namespace mfu {

namespace {

std::string facts_of(const DeviceReport& report) {
  const Device& device = report.device;
  std::vector<std::string> facts;
  if (!device.architecture.empty()) facts.push_back(device.architecture);
  if (device.unit != device.kind && device.kind != "cpu") facts.push_back("one " + device.unit);
  if (device.memory) facts.push_back(bytes_text(*device.memory));
  if (device.bandwidth) facts.push_back(bandwidth_text(*device.bandwidth));
  if (report.found && report.found->clock_most_hz) {
    facts.push_back(fmt::format("clock up to {:.0f} MHz", *report.found->clock_most_hz / 1e6));
  }
  if (report.found && report.found->power_limit_w) {
    facts.push_back(fmt::format("power cap {:.0f} W", *report.found->power_limit_w));
  }
  if (report.found && !report.found->pci.empty()) facts.push_back("PCI " + report.found->pci);
  return join(facts, " · ");
}

const Peak* sparse_of(const Device& device, const Peak& dense) {
  for (const Peak& peak : device.peaks) {
    if (peak.sparse && peak.precision == dense.precision && peak.matrix == dense.matrix &&
        peak.accumulate == dense.accumulate) {
      return &peak;
    }
  }
  return nullptr;
}

void add_once(std::vector<std::string>& all, const std::string& text) {
  if (!text.empty() && std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
}

std::string peak_table(const DeviceReport& report, const TextStyle& style) {
  Table table({{"type"},
               {"dense", Align::right},
               {"sparse", Align::right},
               {"accumulate"},
               {"unit"},
               {"confidence"}});
  std::vector<std::string> sources;
  std::vector<std::string> notes;
  for (const Peak& peak : report.device.peaks) {
    if (peak.sparse) continue;
    const Peak* sparse = sparse_of(report.device, peak);
    // MFU in this type is measured against this rate.
    bool used = report.device.peak(peak.precision) == &peak;
    table.add({std::string(name_of(peak.precision)),
               rate_text(peak.rate, peak.precision) + (used ? " *" : "  "),
               sparse == nullptr ? "-" : rate_text(sparse->rate, peak.precision), peak.accumulate,
               peak.matrix ? "matrix" : "vector", std::string(name_of(peak.confidence))});
    add_once(sources, peak.source);
    add_once(notes, peak.note);
  }
  std::string text = table.text(style);
  text += inked("* the peak of an MFU in that type: dense, accumulated as frameworks do", Ink::dim,
                style) +
          "\n";
  for (const std::string& source : sources) text += paragraph("source", source, style);
  for (const std::string& note : notes) text += paragraph("note  ", note, style);
  return text;
}

std::string measured_table(const DeviceReport& report, const TextStyle& style) {
  Table table({{"type"},
               {"best", Align::right},
               {"of peak", Align::right},
               {"median", Align::right},
               {"spread", Align::right},
               {"measured by"}});
  for (const MeasuredReport& line : report.measured) {
    const Measured& measured = line.measured;
    if (!measured.rate) continue;
    table.add({std::string(name_of(measured.precision)),
               rate_text(*measured.rate, measured.precision),
               line.of_peak ? fmt::format("{:.1f}%", line.of_peak->value * 100) : "-",
               measured.median ? rate_text(*measured.median, measured.precision) : "-",
               measured.spread ? fmt::format("{:.0f}%", measured.spread->value * 100) : "-",
               fmt::format("{}, {}, {} runs", measured.method, measured.shape, measured.runs)});
  }
  std::string text =
      "\n" + inked("ceiling, measured " + report.measured_at, Ink::bold, style) + "\n";
  text += table.text(style);
  if (report.measured_bandwidth) {
    text += fmt::format("memory {}  triad\n", bandwidth_text(*report.measured_bandwidth));
  }
  return text;
}

std::string one_device(const DeviceReport& report, const TextStyle& style) {
  std::string text = inked(report.device.name, Ink::bold, style);
  if (report.found && report.found->driver_name != report.device.name) {
    text += "  " + report.found->driver_name;
  } else if (!report.device.aliases.empty() && report.device.aliases[0] != report.device.name) {
    text += "  " + report.device.aliases[0];
  }
  text += '\n';
  if (std::string facts = facts_of(report); !facts.empty())
    text += wrapped(facts, style.width, 0) + "\n";
  text += '\n';
  if (!report.device.peaks.empty()) text += peak_table(report, style);
  if (!report.measured.empty()) text += measured_table(report, style);
  for (const Note& note : report.notes) text += paragraph("note  ", words_of(note), style);
  return text;
}

// With many devices, each is one row with the dense peaks of the types people train in.
std::string many_devices(const PeakReport& report, const TextStyle& style) {
  const std::vector<Precision> kShown = {Precision::fp32, Precision::tf32, Precision::fp16,
                                         Precision::bf16, Precision::fp8,  Precision::int8};
  std::vector<TableColumn> columns = {{"device"}, {"unit"}, {"memory", Align::right}};
  for (Precision precision : kShown)
    columns.push_back({std::string(name_of(precision)), Align::right});
  Table table(std::move(columns));
  bool doubt = false;
  for (const DeviceReport& each : report.devices) {
    std::vector<std::string> cells = {each.device.name, each.device.unit,
                                      each.device.memory ? bytes_text(*each.device.memory) : "-"};
    for (Precision precision : kShown) {
      const Peak* peak = each.device.peak(precision);
      bool unverified = peak != nullptr && peak->confidence == Confidence::unverified;
      doubt = doubt || unverified;
      std::string rate = peak == nullptr ? "-" : rate_text({peak->rate.per_s}, Precision::fp32);
      if (std::size_t cut = rate.find(" TFLOP/s"); cut != std::string::npos) rate.resize(cut);
      if (std::size_t cut = rate.find(" GFLOP/s"); cut != std::string::npos) {
        rate = fmt::format("{:.3g}", peak->rate.per_s / 1e12);
      }
      cells.push_back(rate + (unverified ? "?" : ""));
    }
    table.add(std::move(cells));
  }
  std::string text = table.text(style);
  text +=
      inked("dense TFLOP/s (int8: TOP/s) of one device, as MFU takes it", Ink::dim, style) + "\n";
  if (doubt) text += inked("? not verified in any source we found", Ink::dim, style) + "\n";
  if (report.devices.size() > 1) {
    text += inked("mfu peak NAME for one: sources, sparse and accumulate rates", Ink::dim, style) +
            "\n";
  }
  return text;
}

}  // namespace

std::string to_text(const PeakReport& report, const TextStyle& style) {
  bool detected = !report.devices.empty() && report.devices[0].found.has_value();
  std::string text;
  if (!detected && report.devices.size() > 1) {
    text = many_devices(report, style);
  } else {
    for (const DeviceReport& each : report.devices) {
      if (!text.empty()) text += '\n';
      text += one_device(each, style);
    }
  }
  return text;
}

}  // namespace mfu
