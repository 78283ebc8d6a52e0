#include "base/json.h"

#include "mfu/sink.h"
#include "sinks/table.h"
#include "sinks/words.h"

namespace mfu {

namespace {

template <typename Quantity>
std::optional<double> per_s(const std::optional<Quantity>& rate) {
  return rate ? std::optional(rate->per_s) : std::nullopt;
}

void write_device(JsonWriter& json, const DeviceReport& report) {
  const Device& device = report.device;
  json.key("device").begin_object();
  json.member("name", device.name);
  json.key("vendor");
  device.vendor.empty() ? json.null() : json.value(device.vendor);
  json.member("kind", device.kind);
  json.member("unit", device.unit);
  json.member("architecture", device.architecture);
  json.strings("aliases", device.aliases);
  json.member("memory_bytes", device.memory ? std::optional(device.memory->count) : std::nullopt);
  json.member("bandwidth_bytes_per_s", per_s(device.bandwidth));
  json.end_object();
  if (!report.found) return;
  const FoundDevice& found = *report.found;
  json.key("found").begin_object();
  json.member("driver_name", found.driver_name);
  json.member("driver", found.source);
  json.member("index", static_cast<std::uint64_t>(found.index));
  json.member("uuid", found.uuid);
  json.member("pci", found.pci);
  json.member("partition", found.partition);
  json.member("memory_bytes", found.memory ? std::optional(found.memory->count) : std::nullopt);
  json.member("clock_hz", found.clock_hz);
  json.member("clock_most_hz", found.clock_most_hz);
  json.member("power_limit_w", found.power_limit_w);
  json.end_object();
}

void write_peaks(JsonWriter& json, const Device& device) {
  json.key("peaks").begin_array();
  for (const Peak& peak : device.peaks) {
    json.begin_object();
    json.member("dtype", name_of(peak.precision));
    json.member("sparsity", peak.sparse ? "sparse" : "dense");
    json.member("accumulate", peak.accumulate);
    json.member("flop_per_s", peak.rate.per_s);
    json.member("source", peak.source);
    json.member("confidence", name_of(peak.confidence));
    json.member("path", peak.matrix ? "matrix" : "vector");
    json.member("used_for_mfu", device.peak(peak.precision, peak.sparse) == &peak && !peak.sparse);
    json.member("note", peak.note);
    json.end_object();
  }
  json.end_array();
}

void write_measured(JsonWriter& json, const DeviceReport& report) {
  json.key("measured").begin_array();
  for (const MeasuredReport& line : report.measured) {
    const Measured& measured = line.measured;
    json.begin_object();
    json.member("dtype", name_of(measured.precision));
    json.member("flop_per_s", per_s(measured.rate));
    json.member("shape", measured.shape);
    json.member("fraction_of_peak",
                line.of_peak ? std::optional(line.of_peak->value) : std::nullopt);
    json.member("clock_hz", measured.clock_hz);
    json.member("method", measured.method);
    json.member("median_flop_per_s", per_s(measured.median));
    json.member("spread_fraction",
                measured.spread ? std::optional(measured.spread->value) : std::nullopt);
    json.member("runs", static_cast<std::uint64_t>(measured.runs));
    json.key("why_not");
    measured.why_not.empty() ? json.null() : json.value(measured.why_not);
    json.end_object();
  }
  json.end_array();
  json.member("measured_bandwidth_bytes_per_s", per_s(report.measured_bandwidth));
}

}  // namespace

std::string to_json(const PeakReport& report, Voice voice) {
  JsonWriter json;
  json.begin_object().member("schema", "mfu.peak/1").key("devices").begin_array();
  std::vector<std::string> notes;
  for (const DeviceReport& each : report.devices) {
    json.begin_object();
    write_device(json, each);
    write_peaks(json, each.device);
    write_measured(json, each);
    write_notes(json, each.notes, voice);
    json.end_object();
    for (const std::string& note : all_words(each.notes, voice)) {
      notes.push_back(each.device.name + ": " + note);
    }
  }
  json.end_array();
  json.strings("notes", notes);
  return json.end_object().text();
}

std::string to_json(const DoctorReport& report) {
  JsonWriter json;
  json.begin_object().member("schema", "mfu.doctor/1").key("checks").begin_array();
  for (const Probe& probe : report.probes) {
    json.begin_object();
    json.member("name", probe.name);
    json.member("works", probe.works);
    json.member("finding", probe.finding);
    json.key("remedy");
    probe.remedy.empty() ? json.null() : json.value(probe.remedy);
    json.end_object();
  }
  return json.end_array().end_object().text();
}

std::string text_to_json(std::string_view text) {
  JsonWriter json;
  json.begin_object().member("schema", "mfu.text/1").member("text", text);
  return json.end_object().text();
}

std::string to_json(const Error& error) {
  JsonWriter json;
  json.begin_object().member("schema", "mfu.error/1");
  json.member("code", name_of(error.code));
  json.member("message", error.message);
  return json.end_object().text();
}

std::string to_json(const std::vector<SettingKey>& keys, const Settings& settings,
                    const std::string& path) {
  JsonWriter json;
  json.begin_object()
      .member("schema", "mfu.config/1")
      .member("file", path)
      .key("settings")
      .begin_object();
  for (const SettingKey& key : keys) {
    const Setting& setting = settings.setting(key.key);
    json.key(key.key).begin_object();
    json.key("value");
    setting.value.empty() ? json.null() : json.value(setting.value);
    json.member("origin", setting.origin);
    json.member("meaning", key.meaning);
    json.end_object();
  }
  return json.end_object().end_object().text();
}

}  // namespace mfu
