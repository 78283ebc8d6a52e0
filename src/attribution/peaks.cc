#include "attribution/peaks.h"

#include <fmt/format.h>

#include "base/text.h"

namespace mfu {

namespace {

// The type the hardware computes in where it has no unit for the one asked for.
std::optional<Precision> computed_in(Precision precision) {
  switch (precision) {
    case Precision::tf32:
    case Precision::bf16:
    case Precision::fp16:
      return Precision::fp32;
    case Precision::fp8:
    case Precision::fp6:
    case Precision::fp4:
      return Precision::bf16;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Precision> precision_of(ElementType type) {
  switch (type) {
    case ElementType::complex32:
      return Precision::fp16;
    case ElementType::complex64:
      return Precision::fp32;
    case ElementType::complex128:
      return Precision::fp64;
    case ElementType::uint8:
      return Precision::int8;
    default:
      return parse_precision(name_of(type));
  }
}

Peaks::Peaks(const AttributionOptions& options, const std::string& named) : options_(options) {
  if (options.device) {
    device_ = options.device;
    return;
  }
  const Catalog& catalog = options.catalog != nullptr ? *options.catalog : Catalog::builtin();
  if (!named.empty()) {
    Result<Device> found = find_device(catalog, named);
    if (found.has_value()) {
      device_ = *found;
      return;
    }
  }
  if (options.peak) return;
  notes_.push_back(fmt::format(
      "{}: there is no peak to compare with, so all matmul time stands under matmul_flop_unknown "
      "and there is no MFU; pass --device NAME (mfu peak --list) or --peak FLOP_PER_S",
      named.empty() ? std::string("the trace does not name its device")
                    : fmt::format("the device '{}' is not in the catalogue", printable(named))));
}

std::optional<Peaks::Choice> Peaks::of(ElementType type, bool tf32) const {
  std::optional<Precision> precision = options_.precision ? options_.precision : precision_of(type);
  if (!precision) return std::nullopt;
  if (!options_.precision && *precision == Precision::fp32 && tf32) precision = Precision::tf32;
  if (options_.peak) return Choice{*precision, *options_.peak, "given with --peak"};
  if (!device_) return std::nullopt;
  std::optional<Precision> used = precision;
  while (used) {
    if (const Peak* peak = device_->peak(*used)) {
      std::string source =
          fmt::format("{}, {} dense: {}", device_->name, name_of(*used), peak->source);
      if (*used != *precision) {
        source += fmt::format(" (it has no unit for {})", name_of(*precision));
      }
      return Choice{*precision, peak->rate, source};
    }
    used = computed_in(*used);
  }
  return std::nullopt;
}

std::optional<Peaks::Choice> Peaks::faster_than(Precision precision) const {
  if (!device_ || options_.peak) return std::nullopt;
  const Peak* now = device_->peak(precision);
  if (now == nullptr) return std::nullopt;
  for (Precision better : {Precision::bf16, Precision::fp16}) {
    const Peak* peak = device_->peak(better);
    if (peak != nullptr && peak->rate.per_s > 1.5 * now->rate.per_s) {
      return Choice{better, peak->rate, peak->source};
    }
  }
  return std::nullopt;
}

}  // namespace mfu
