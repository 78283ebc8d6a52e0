// Stores ceilings in one JSON file, the newest last, with one entry per device and conditions.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/settings.h"
#include "base/text.h"
#include "mfu/machine.h"

namespace mfu {

namespace {

constexpr std::size_t kMostKept = 64;

std::string cache_path() {
  return cache_directory() + "/ceilings.json";
}

void write_measured(JsonWriter& json, std::string_view name, const std::vector<Measured>& all) {
  json.key(name).begin_array();
  for (const Measured& one : all) {
    json.begin_object();
    json.member("dtype", std::string(name_of(one.precision)));
    json.member("method", one.method);
    if (one.rate) json.member("flop_per_s", one.rate->per_s);
    if (one.median) json.member("median_flop_per_s", one.median->per_s);
    if (one.spread) json.member("spread_fraction", one.spread->value);
    if (one.clock_hz) json.member("clock_hz", *one.clock_hz);
    json.member("shape", one.shape);
    json.member("runs", static_cast<std::uint64_t>(one.runs));
    json.member("why_not", one.why_not);
    json.end_object();
  }
  json.end_array();
}

std::vector<Measured> read_measured(const Json& entry, std::string_view name) {
  std::vector<Measured> all;
  const Json* list = entry.find(name);
  if (list == nullptr) return all;
  for (const Json& one : list->elements()) {
    auto precision = parse_precision(one.text_at("dtype"));
    if (!precision) continue;
    Measured result;
    result.precision = *precision;
    result.method = one.text_at("method");
    if (auto rate = one.number_at("flop_per_s")) result.rate = FlopRate{*rate};
    if (auto median = one.number_at("median_flop_per_s")) result.median = FlopRate{*median};
    if (auto spread = one.number_at("spread_fraction")) result.spread = Fraction{*spread};
    result.clock_hz = one.number_at("clock_hz");
    result.shape = one.text_at("shape");
    result.runs = static_cast<std::size_t>(std::max(0.0, one.number_at("runs").value_or(0)));
    result.why_not = one.text_at("why_not");
    all.push_back(std::move(result));
  }
  return all;
}

// A cache that cannot be read counts as empty, because everything in it can be measured again.
std::vector<Ceiling> read_cache() {
  std::vector<Ceiling> all;
  Result<std::string> text = read_file(cache_path());
  if (!text.has_value()) return all;
  Result<Json> json = parse_json(*text, cache_path());
  const Json* list = json.has_value() ? json->find("ceilings") : nullptr;
  if (list == nullptr) return all;
  for (const Json& entry : list->elements()) {
    Ceiling ceiling;
    ceiling.device = entry.text_at("device");
    ceiling.conditions = entry.text_at("conditions");
    ceiling.measured_at = entry.text_at("measured_at");
    ceiling.bursts = read_measured(entry, "bursts");
    ceiling.measured = read_measured(entry, "measured");
    if (auto rate = entry.number_at("bandwidth_bytes_per_s")) ceiling.bandwidth = ByteRate{*rate};
    ceiling.bandwidth_method = entry.text_at("bandwidth_method");
    all.push_back(std::move(ceiling));
  }
  return all;
}

}  // namespace

std::string conditions_of(const FoundDevice& found) {
  std::string text;
  if (found.clock_most_hz)
    text += fmt::format("clock up to {:.0f} MHz", *found.clock_most_hz / 1e6);
  if (found.power_limit_w)
    text += fmt::format("{}power cap {:.0f} W", text.empty() ? "" : ", ", *found.power_limit_w);
  return text;
}

Result<void> store_ceiling(const Ceiling& ceiling) {
  std::vector<Ceiling> all = read_cache();
  std::erase_if(all, [&](const Ceiling& known) {
    return known.device == ceiling.device && known.conditions == ceiling.conditions;
  });
  all.push_back(ceiling);
  if (all.size() > kMostKept) all.erase(all.begin(), all.end() - kMostKept);
  JsonWriter json;
  json.begin_object().member("schema", "mfu.ceilings/1").key("ceilings").begin_array();
  for (const Ceiling& one : all) {
    json.begin_object();
    json.member("device", one.device);
    json.member("conditions", one.conditions);
    json.member("measured_at", one.measured_at);
    write_measured(json, "bursts", one.bursts);
    write_measured(json, "measured", one.measured);
    if (one.bandwidth) json.member("bandwidth_bytes_per_s", one.bandwidth->per_s);
    json.member("bandwidth_method", one.bandwidth_method);
    json.end_object();
  }
  json.end_array().end_object();
  return write_file(cache_path(), json.text() + "\n");
}

std::optional<Ceiling> stored_ceiling(const FoundDevice& found) {
  std::optional<Ceiling> latest;
  for (Ceiling& known : read_cache()) {
    if (known.device == found.driver_name && known.conditions == conditions_of(found))
      latest = std::move(known);
  }
  return latest;
}

}  // namespace mfu
