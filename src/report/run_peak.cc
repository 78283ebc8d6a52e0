#include "report/run_peak.h"

#include <map>
#include <vector>

namespace mfu {

namespace {

// Types in the order in which hardware without a unit for one computes it in the next.
std::vector<Precision> computed_in(std::string_view type, bool tf32) {
  if (type == "fp32" && tf32) return {Precision::tf32, Precision::fp32};
  if (type == "complex64") return {Precision::fp32};
  if (type == "complex128") return {Precision::fp64};
  std::optional<Precision> own = parse_precision(type);
  if (!own) return {};
  switch (*own) {
    case Precision::fp4:
      return {Precision::fp4, Precision::fp8, Precision::bf16, Precision::fp16, Precision::fp32};
    case Precision::fp6:
      return {Precision::fp6, Precision::fp8, Precision::bf16, Precision::fp16, Precision::fp32};
    case Precision::fp8:
      return {Precision::fp8, Precision::bf16, Precision::fp16, Precision::fp32};
    case Precision::bf16:
      return {Precision::bf16, Precision::fp32};
    case Precision::fp16:
      return {Precision::fp16, Precision::fp32};
    case Precision::int4:
      return {Precision::int4, Precision::int8, Precision::fp16, Precision::fp32};
    case Precision::int8:
      return {Precision::int8, Precision::fp16, Precision::fp32};
    case Precision::tf32:
      return {Precision::tf32, Precision::fp32};
    default:
      return {*own};
  }
}

}  // namespace

std::optional<TypePeak> peak_of_type(const RunQuestion& question, std::string_view type,
                                     bool tf32) {
  if (question.peak) return TypePeak{*question.peak, "given with --peak", std::string(type)};
  if (!question.device.device) return std::nullopt;
  std::vector<Precision> candidates = computed_in(type, tf32);
  if (question.precision) candidates = {*question.precision};
  for (Precision candidate : candidates) {
    const Peak* peak = question.device.device->peak(candidate);
    if (peak == nullptr) continue;
    return TypePeak{peak->rate, peak->source, std::string(name_of(candidate))};
  }
  return std::nullopt;
}

}  // namespace mfu
