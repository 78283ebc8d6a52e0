// Identifies a device by its name and by what else it tells about itself.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "hardware/names.h"
#include "mfu/hardware.h"

namespace mfu {

namespace {

// "gfx90a" of "gfx90a:sramecc+:xnack-".
std::string bare_architecture(std::string_view architecture) {
  return to_lower(architecture.substr(0, architecture.find(':')));
}

bool has_architecture(const Device& device, std::string_view architecture) {
  std::vector<std::string_view> words = split(device.architecture, ' ');
  return std::find(words.begin(), words.end(), architecture) != words.end();
}

// For RDNA devices, ROCm counts work-group processors, which have two compute units each: 20 for a
// Radeon 8060S with 40 units, 48 for an RX 7900 XTX with 96.
bool counts_pairs(const Device& device) {
  return device.architecture.find("gfx1") != std::string::npos;
}

std::uint32_t units_as_ours(const Device& device, std::uint32_t said) {
  return counts_pairs(device) && device.units && 2 * said <= *device.units ? 2 * said : said;
}

bool is_whole(const Device& device, std::uint32_t said) {
  return device.units && units_as_ours(device, said) == *device.units;
}

// Drivers keep a little memory for themselves, and 1 GB may be 10^9 or 2^30 bytes.
bool fits_memory(const std::optional<Bytes>& known, const std::optional<Bytes>& said) {
  if (!known || !said) return true;
  double ratio = static_cast<double>(said->count) / static_cast<double>(known->count);
  return ratio > 0.9 && ratio < 1.1;
}

const Partition* partition_of(const Catalog& catalog, const Device& device, std::uint32_t units) {
  for (const Partition& each : catalog.partitions()) {
    if (each.device == device.name && each.units == units) return &each;
  }
  return nullptr;
}

bool same_peaks(const Device& a, const Device& b) {
  return a.units == b.units &&
         std::equal(a.peaks.begin(), a.peaks.end(), b.peaks.begin(), b.peaks.end(),
                    [](const Peak& left, const Peak& right) {
                      return left.precision == right.precision && left.sparse == right.sparse &&
                             std::abs(left.rate.per_s - right.rate.per_s) < 1e-3 * right.rate.per_s;
                    });
}

std::string named(const std::vector<Device>& devices) {
  std::vector<std::string> names;
  for (const Device& each : devices) names.push_back(each.name);
  return join(names, ", ");
}

Note units_note(std::string code, std::uint32_t units, const Device& whole) {
  return {std::move(code),
          {{"units", std::int64_t{units}},
           {"device", whole.name},
           {"all", std::int64_t{*whole.units}}}};
}

// The whole device, or the part of it that these traits describe.
Device sized(const Catalog& catalog, Device device, const DeviceTraits& traits) {
  if (!traits.units || !device.units || is_whole(device, *traits.units)) return device;
  std::uint32_t units = units_as_ours(device, *traits.units);
  if (units > *device.units) {
    device.notes.push_back(units_note("more_units", units, device));
    return device;
  }
  const Partition* known = partition_of(catalog, device, units);
  std::string name = known != nullptr ? device.name + " " + known->profile
                                      : fmt::format("{} ({} units)", device.name, units);
  Device part = slice_of(device, name, units);
  part.memory = traits.memory;
  if (known != nullptr) part.bandwidth = known->bandwidth;
  part.notes.push_back(units_note("share_of_units", units, device));
  return part;
}

// Splits "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb" into the name and the profile.
std::optional<std::pair<std::string, std::string>> mig_of(std::string_view name) {
  std::string low = folded(name);
  std::size_t at = low.rfind(" mig ");
  if (at == std::string::npos) return std::nullopt;
  return std::pair(low.substr(0, at), low.substr(at + 5));
}

std::optional<Device> mig_slice(const Catalog& catalog, const DeviceTraits& traits) {
  auto mig = mig_of(traits.name);
  if (!mig || !traits.units) return std::nullopt;
  Result<Device> whole = find_device(catalog, mig->first);
  if (!whole.has_value() || !whole->units || *traits.units > *whole->units) return std::nullopt;
  Device slice = slice_of(*whole, whole->name + " " + mig->second, *traits.units);
  slice.memory = traits.memory;
  // A compute instance shares the memory of its GPU instance with others.
  bool shared = mig->second.find("c.") != std::string::npos;
  for (const Partition& each : catalog.partitions()) {
    if (each.device != whole->name || to_lower(each.profile) != mig->second) continue;
    if (!shared) slice.bandwidth = each.bandwidth;
  }
  slice.notes.push_back(units_note("share_of_units", *traits.units, *whole));
  return slice;
}

// Some names say nothing ("AMD Radeon Graphics"), others stand for two devices ("AMD Instinct
// MI250X / MI250"). For these, architecture, units and memory decide. A specific name that nobody
// knows stays unknown.
std::vector<Device> by_architecture(const Catalog& catalog, const DeviceTraits& traits) {
  std::string architecture = bare_architecture(traits.architecture);
  if (!architecture.starts_with("gfx") || !traits.units) return {};
  std::vector<std::string> models = model_words(traits.name);
  std::vector<Device> found;
  for (const Device& device : catalog.devices()) {
    if (!has_architecture(device, architecture) || device.unit == "package") continue;
    bool named_so = std::any_of(models.begin(), models.end(), [&](const std::string& word) {
      std::vector<std::string> names = names_of(device);
      return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return (" " + name + " ").find(" " + word + " ") != std::string::npos;
      });
    });
    if (!models.empty() && !named_so) continue;
    bool part = partition_of(catalog, device, *traits.units) != nullptr;
    if (is_whole(device, *traits.units) ? fits_memory(device.memory, traits.memory) : part) {
      found.push_back(device);
    }
  }
  return found;
}

// Keeps those of several devices that have the units and the memory that the traits say.
void narrow(std::vector<Device>& found, const DeviceTraits& traits) {
  auto keep = [&](auto fits) {
    std::vector<Device> kept;
    std::copy_if(found.begin(), found.end(), std::back_inserter(kept), fits);
    if (!kept.empty()) found = std::move(kept);
  };
  if (traits.units) keep([&](const Device& each) { return is_whole(each, *traits.units); });
  keep([&](const Device& each) { return fits_memory(each.memory, traits.memory); });
}

}  // namespace

Result<Device> identify_device(const Catalog& catalog, const DeviceTraits& traits) {
  if (std::optional<Device> slice = mig_slice(catalog, traits)) return *std::move(slice);
  std::vector<Device> found = match_devices(catalog, traits.name);
  if (found.empty()) found = by_architecture(catalog, traits);
  if (found.size() > 1) narrow(found, traits);
  if (found.empty()) return find_device(catalog, traits.name);  // says what is nearest
  for (Device& each : found) each = sized(catalog, std::move(each), traits);
  bool alike = std::all_of(found.begin(), found.end(),
                           [&](const Device& each) { return same_peaks(each, found[0]); });
  if (!alike) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' may be {}: give --device or --peak",
                                                         printable(traits.name), named(found)));
  }
  return std::move(found[0]);
}

}  // namespace mfu
