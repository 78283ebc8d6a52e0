#include <fmt/format.h>

#include "mfu/utilization.h"

namespace mfu {

namespace {

std::optional<Precision> precision_of(std::string_view type) {
  if (type == "complex32") return Precision::fp16;
  if (type == "complex64") return Precision::fp32;
  if (type == "complex128") return Precision::fp64;
  if (type == "uint8") return Precision::int8;
  return parse_precision(type);
}

// The next wider type. Hardware without a unit for a type computes in a wider one.
std::optional<Precision> wider(Precision precision) {
  switch (precision) {
    case Precision::fp4:
    case Precision::fp6:
      return Precision::fp8;
    case Precision::fp8:
      return Precision::bf16;
    case Precision::int4:
      return Precision::int8;
    case Precision::int8:
      return Precision::fp16;
    case Precision::fp16:
    case Precision::bf16:
    case Precision::tf32:
      return Precision::fp32;
    case Precision::fp32:
    case Precision::fp64:
      return std::nullopt;
  }
  MFU_ASSERT(false);
}

ChosenPeak peak_of(const Device& device, Precision asked, const Peak& row, PeakReason reason) {
  return {
      .rate = row.rate,
      .reason = reason,
      .precision = asked,
      .against = row.precision,
      .source = fmt::format("{}, {} dense: {}", device.name, name_of(row.precision), row.source),
      .confidence = row.confidence};
}

// Work at F FLOP/s for a share a and at G for the rest runs at 1 / (a/F + (1-a)/G).
ChosenPeak fp32_peak(const Device& device, const Peak& fast, const Peak* slow, const Tf32& tf32) {
  ChosenPeak chosen = peak_of(device, Precision::tf32, fast, PeakReason::tf32_allowed);
  double share = (tf32.matmul ? 1 - tf32.convolution_fraction : 0) +
                 (tf32.convolution ? tf32.convolution_fraction : 0);
  if (share >= 1 || slow == nullptr) return chosen;
  chosen.precision = Precision::fp32;
  chosen.rate = FlopRate{1 / (share / fast.rate.per_s + (1 - share) / slow->rate.per_s)};
  chosen.source = fmt::format("{}, {:.0f}% tf32 and the rest fp32 dense: {}", device.name,
                              share * 100, fast.source);
  return chosen;
}

ChosenPeak choose(const PeakQuestion& question, std::string_view type, const Tf32& tf32) {
  std::optional<Precision> asked = question.precision ? question.precision : precision_of(type);
  if (question.given) {
    return {.rate = question.given,
            .reason = PeakReason::given,
            .precision = asked,
            .against = asked,
            .source = "given"};
  }
  if (!asked) return {.reason = PeakReason::no_type};
  if (question.device == nullptr) return {.reason = PeakReason::no_device, .precision = asked};
  const Device& device = *question.device;
  bool allowed = (tf32.matmul && tf32.convolution_fraction < 1) ||
                 (tf32.convolution && tf32.convolution_fraction > 0);
  if (allowed && !question.precision && *asked == Precision::fp32) {
    const Peak* fast = device.peak(Precision::tf32);
    if (fast != nullptr) return fp32_peak(device, *fast, device.peak(Precision::fp32), tf32);
  }
  for (std::optional<Precision> used = asked; used; used = wider(*used)) {
    const Peak* row = device.peak(*used);
    if (row == nullptr) continue;
    return peak_of(device, *asked, *row,
                   used == asked ? PeakReason::own_unit : PeakReason::wider_unit);
  }
  return {.reason = PeakReason::no_unit, .precision = asked};
}

}  // namespace

std::string_view name_of(PeakReason reason) {
  constexpr std::string_view kNames[] = {"own_unit",  "wider_unit", "tf32_allowed", "given",
                                         "no_device", "no_type",    "no_unit"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(PeakReason::no_unit) + 1);
  return kNames[static_cast<std::size_t>(reason)];
}

ChosenPeak choose_peak(const PeakQuestion& question, std::string_view type, const Tf32& tf32) {
  ChosenPeak chosen = choose(question, type, tf32);
  if (chosen.rate && question.sharers > 1 && !question.given) {
    chosen.rate->per_s /= static_cast<double>(question.sharers);
  }
  return chosen;
}

std::optional<FasterPeak> faster_peak(const Device& device, Precision precision) {
  const Peak* now = device.peak(precision);
  if (now == nullptr) return std::nullopt;
  for (Precision better : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    if (better == Precision::fp32 && precision != Precision::fp64) continue;
    const Peak* row = device.peak(better);
    if (row != nullptr && row->rate.per_s > 1.5 * now->rate.per_s) {
      return FasterPeak{peak_of(device, better, *row, PeakReason::own_unit),
                        now->rate.per_s / row->rate.per_s};
    }
  }
  return std::nullopt;
}

}  // namespace mfu
