#include <algorithm>

#include "mfu/hardware.h"

namespace mfu {

std::string_view name_of(Precision precision) {
  constexpr std::string_view kNames[] = {"fp64", "fp32", "tf32", "fp16", "bf16",
                                         "fp8",  "fp6",  "fp4",  "int8", "int4"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Precision::int4) + 1);
  return kNames[static_cast<std::size_t>(precision)];
}

const std::vector<Precision>& all_precisions() {
  static const std::vector<Precision> kAll = {
      Precision::fp64, Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16,
      Precision::fp8,  Precision::fp6,  Precision::fp4,  Precision::int8, Precision::int4};
  return kAll;
}

std::optional<Precision> parse_precision(std::string_view name) {
  for (Precision precision : all_precisions()) {
    if (name_of(precision) == name) return precision;
  }
  return std::nullopt;
}

std::string_view name_of(Confidence confidence) {
  constexpr std::string_view kNames[] = {"read", "derived", "inferred", "unverified"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Confidence::unverified) + 1);
  return kNames[static_cast<std::size_t>(confidence)];
}

namespace {

// Frameworks accumulate products of fp16, bf16 and fp8 in fp32. A faster rate with fp16
// accumulation is listed but not used.
int usual(const Peak& peak) {
  bool narrow = peak.accumulate == "fp16" || peak.accumulate == "bf16";
  return narrow ? 0 : 1;
}

}  // namespace

const Peak* Device::peak(Precision precision, bool sparse) const {
  const Peak* best = nullptr;
  for (const Peak& peak : peaks) {
    if (peak.precision != precision || peak.sparse != sparse) continue;
    bool better = best == nullptr || usual(peak) > usual(*best) ||
                  (usual(peak) == usual(*best) && peak.rate > best->rate);
    if (better) best = &peak;
  }
  return best;
}

Device slice_of(const Device& device, std::string_view name, std::uint32_t units) {
  MFU_ASSERT(device.units.has_value() && units <= *device.units);
  Device slice = device;
  double share = static_cast<double>(units) / *device.units;
  slice.name = name;
  slice.aliases.clear();
  slice.unit = "slice";
  slice.units = units;
  slice.memory.reset();
  slice.bandwidth.reset();
  for (Peak& peak : slice.peaks) {
    peak.rate.per_s *= share;
    peak.source = peak.source + ", times " + std::to_string(units) + "/" +
                  std::to_string(*device.units) + " units";
    if (peak.confidence == Confidence::read) peak.confidence = Confidence::derived;
  }
  return slice;
}

}  // namespace mfu
