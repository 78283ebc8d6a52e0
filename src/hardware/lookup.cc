#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/suggest.h"
#include "base/text.h"
#include "hardware/names.h"
#include "mfu/hardware.h"

namespace mfu {

std::string folded(std::string_view name) {
  std::string words;
  for (char letter : to_lower(name)) {
    bool kept = (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') ||
                letter == '.' || letter == '+' || static_cast<unsigned char>(letter) >= 0x80;
    if (kept) {
      words += letter;
    } else if (!words.empty() && words.back() != ' ') {
      words += ' ';
    }
  }
  if (!words.empty() && words.back() == ' ') words.pop_back();
  return words;
}

std::vector<std::string> names_of(const Device& device) {
  std::vector<std::string> names = {folded(device.name)};
  for (const std::string& alias : device.aliases) {
    std::string name = folded(alias);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

bool share_a_name(const Device& a, const Device& b) {
  std::vector<std::string> names = names_of(a);
  for (const std::string& name : names_of(b)) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return true;
  }
  return false;
}

namespace {

using Words = std::vector<std::string>;

// Words that say who made a device, not which one it is. They may be left out, but they must not
// name another maker.
const std::map<std::string, std::string, std::less<>> kMakers = {
    {"nvidia", "nvidia"}, {"tesla", "nvidia"}, {"geforce", "nvidia"}, {"amd", "amd"},
    {"instinct", "amd"},  {"radeon", "amd"},   {"intel", "intel"},    {"habana", "intel"},
    {"google", "google"}, {"aws", "aws"},      {"apple", "apple"},    {"huawei", "huawei"}};
const std::set<std::string, std::less<>> kNoise = {"r", "tm", "gpu", "graphics", "accelerator"};

// Words that a maker puts in front of very different devices. Alone they name no device.
const std::set<std::string, std::less<>> kBrands = {"rtx", "gtx", "quadro"};

struct Query {
  Words words;                    // without words for makers, and without noise
  std::set<std::string> vendors;  // the makers that the words name
};

Query query_of(std::string_view folded_name) {
  Query query;
  for (std::string_view word : split(folded_name, ' ')) {
    if (auto maker = kMakers.find(word); maker != kMakers.end()) {
      query.vendors.insert(maker->second);
    } else if (!word.empty() && !kNoise.contains(word)) {
      query.words.emplace_back(word);
    }
  }
  return query;
}

bool may_be_of(const Query& query, const Device& device) {
  return query.vendors.empty() || device.vendor.empty() ||
         (query.vendors.size() == 1 && query.vendors.contains(device.vendor));
}

// Words must be equal, except that people leave out the generation of a socket: sxm matches sxm4.
bool same_word(std::string_view asked, std::string_view there) {
  if (asked == there) return true;
  return asked == "sxm" && there.size() == 4 && there.starts_with("sxm");
}

// Every word of the query must be one of the device's words, and one of the device's names must
// begin with the first word of the query. "80gb" or "server" alone name nothing.
bool all_words_in(const Query& query, const Device& device) {
  std::set<std::string> there;
  bool begins = false;
  for (const std::string& name : names_of(device)) {
    for (std::string_view word : split(name, ' ')) there.emplace(word);
    Words words = query_of(name).words;
    begins = begins || (!words.empty() && words[0] == query.words[0]);
  }
  return begins &&
         std::all_of(query.words.begin(), query.words.end(), [&](const std::string& asked) {
           return std::any_of(there.begin(), there.end(),
                              [&](const std::string& word) { return same_word(asked, word); });
         });
}

// Whether any of the device's names contains the word, in any case. A device that matches contains
// the first word of the query. This checks that without folding all names of the catalogue.
bool mentions(const Device& device, std::string_view word) {
  auto same_letter = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  auto holds = [&](const std::string& name) {
    return std::search(name.begin(), name.end(), word.begin(), word.end(), same_letter) !=
           name.end();
  };
  return holds(device.name) || std::any_of(device.aliases.begin(), device.aliases.end(), holds);
}

// If a driver prints exactly this name, that device. Otherwise devices with the same words apart
// from makers and noise. Otherwise every device that has all the words.
std::vector<const Device*> whole_devices(const Catalog& catalog, std::string_view folded_name) {
  Query query = query_of(folded_name);
  auto is_brand = [](const std::string& word) { return kBrands.contains(word); };
  if (std::all_of(query.words.begin(), query.words.end(), is_brand)) return {};
  std::vector<const Device*> exact;
  std::vector<const Device*> same;
  std::vector<const Device*> family;
  for (const Device& device : catalog.devices()) {
    if (!may_be_of(query, device) || !mentions(device, query.words[0])) continue;
    for (const std::string& name : names_of(device)) {
      if (name == folded_name) exact.push_back(&device);
      // A single word without its maker ("h200") is the name of a family, even if some driver
      // prints just that.
      bool telling = query.words.size() > 1 || !query.vendors.empty();
      if (telling && query_of(name).words == query.words &&
          (same.empty() || same.back() != &device)) {
        same.push_back(&device);
      }
    }
    if (all_words_in(query, device)) family.push_back(&device);
  }
  return !exact.empty() ? exact : !same.empty() ? same : family;
}

// "1c.3g.40gb": one of the compute slices of the GPU instance 3g.40gb, whose memory it shares. A
// slice has the units of the device's smallest GPU instance, 1g (nvidia-smi mig -lcip).
std::optional<Device> compute_instance(const Catalog& catalog, const Device& device,
                                       std::string_view profile) {
  std::size_t cut = profile.find("c.");
  if (cut != 1 || profile[0] < '1' || profile[0] > '9' || !device.units) return std::nullopt;
  std::string_view instance = profile.substr(3);
  auto slices = static_cast<std::uint32_t>(profile[0] - '0');
  const Partition* whole = nullptr;
  std::uint32_t slice_units = 0;
  for (const Partition& each : catalog.partitions()) {
    if (each.device != device.name) continue;
    if (to_lower(each.profile) == instance) whole = &each;
    if (each.profile.starts_with("1g.")) slice_units = each.units;
  }
  if (whole == nullptr || slice_units == 0 || slices * slice_units > whole->units) {
    return std::nullopt;
  }
  Device part = slice_of(device, fmt::format("{} {}", device.name, profile), slices * slice_units);
  part.memory = whole->memory;
  part.notes.push_back({"compute_slices",
                        {{"units", std::int64_t{slices * slice_units}},
                         {"all", std::int64_t{*device.units}},
                         {"slices", std::int64_t{slices}},
                         {"instance", std::string(instance)},
                         {"source", whole->source}}});
  return part;
}

// "NVIDIA A100-SXM4-40GB MIG 1g.5gb" as torch prints it, or "MI300X CPX".
std::vector<Device> partitions(const Catalog& catalog, std::string_view folded_name) {
  std::size_t cut = folded_name.rfind(' ');
  if (cut == std::string_view::npos) return {};
  std::string profile(folded_name.substr(cut + 1));
  std::string_view whole = folded_name.substr(0, cut);
  if (whole.ends_with(" mig")) whole.remove_suffix(4);
  std::vector<Device> found;
  for (const Device* device : whole_devices(catalog, whole)) {
    if (auto instance = compute_instance(catalog, *device, profile)) {
      found.push_back(*std::move(instance));
    }
    for (const Partition& partition : catalog.partitions()) {
      if (partition.device != device->name || to_lower(partition.profile) != profile) continue;
      if (!device->units || *device->units < partition.units) continue;
      Device slice = slice_of(*device, device->name + " " + partition.profile, partition.units);
      slice.memory = partition.memory;
      slice.bandwidth = partition.bandwidth;
      slice.notes.push_back({"partition_units",
                             {{"units", std::int64_t{partition.units}},
                              {"all", std::int64_t{*device->units}},
                              {"source", partition.source}}});
      found.push_back(std::move(slice));
    }
  }
  return found;
}

std::vector<std::string> suggestions(const Catalog& catalog, std::string_view name) {
  struct Near {
    std::size_t distance;
    std::size_t same_start;
    const Device* device;
  };
  std::string wanted = join(query_of(folded(name)).words, " ");
  std::vector<Near> near;
  for (const Device& device : catalog.devices()) {
    Near best{wanted.size(), 0, &device};
    for (const std::string& other : names_of(device)) {
      std::string words = join(query_of(other).words, " ");
      std::size_t start = 0;
      while (start < std::min(words.size(), wanted.size()) && words[start] == wanted[start])
        ++start;
      best.same_start = std::max(best.same_start, start);
      best.distance = std::min(best.distance, edit_distance(wanted, words));
      // A longer driver string that starts almost the same: "h1000" and "h100 80gb hbm3".
      best.distance =
          std::min(best.distance, 1 + edit_distance(wanted, words.substr(0, words.find(' '))));
    }
    if (best.distance <= std::max<std::size_t>(2, wanted.size() / 3)) near.push_back(best);
  }
  std::stable_sort(near.begin(), near.end(), [](const Near& a, const Near& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.same_start > b.same_start;
  });
  std::vector<std::string> names;
  for (const Near& each : near) {
    if (names.size() < 5) names.push_back(each.device->name);
  }
  return names;
}

}  // namespace

std::vector<std::string> model_words(std::string_view name) {
  return query_of(folded(name.substr(0, 256))).words;
}

std::vector<Device> match_devices(const Catalog& catalog, std::string_view name) {
  std::string wanted = folded(name.substr(0, 256));
  std::vector<Device> found;
  for (const Device* device : whole_devices(catalog, wanted)) found.push_back(*device);
  return found.empty() ? partitions(catalog, wanted) : found;
}

Result<Device> find_device(const Catalog& catalog, std::string_view name) {
  std::vector<Device> found = match_devices(catalog, name);
  if (found.size() == 1) return found[0];
  std::vector<std::string> names;
  for (const Device& device : found) names.push_back(device.name);
  if (!found.empty()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' fits {} devices: {}. Name one of them.", printable(name),
                            found.size(), join(names, ", ")));
  }
  std::vector<std::string> near = suggestions(catalog, name);
  return fail(
      ErrorCode::not_found,
      fmt::format("no device '{}' in the catalogue{}. mfu peak --list shows all; a peak of "
                  "your own goes in with --peak FLOP_PER_S, or as a row of a --catalog file.",
                  printable(name),
                  near.empty() ? "" : fmt::format("; nearest: {}", join(near, ", "))));
}

}  // namespace mfu
