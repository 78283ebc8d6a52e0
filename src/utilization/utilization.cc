#include "mfu/utilization.h"

#include <algorithm>

namespace mfu {

Rating rating_of(Fraction mfu) {
  if (mfu.value >= 0.5) return Rating::good;
  if (mfu.value >= 0.2) return Rating::fair;
  return mfu.value >= 0.1 ? Rating::low : Rating::very_low;
}

std::string_view name_of(Rating rating) {
  constexpr std::string_view kNames[] = {"good", "fair", "low", "very low"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Rating::very_low) + 1);
  return kNames[static_cast<std::size_t>(rating)];
}

namespace {

// A utilization above the peak means that some input is wrong. Which one is most likely depends on
// how far above it is.
void note_contradictions(Utilization& used) {
  auto check = [&](const char* what, const std::optional<Fraction>& share, const char* suspect) {
    if (!share || share->value <= 1) return;
    used.contradictions.push_back(
        {"above_peak", {{"what", what}, {"fraction", share->value}, {"suspect", suspect}}});
  };
  bool doubled = used.mfu.value <= 2.1 && used.mfu.value > 1;
  check("MFU", used.mfu,
        used.devices == 1 ? "devices_or_peak"
        : doubled         ? "peak_too_low"
                          : "devices");
  if (used.mfu.value <= 1) check("HFU", used.hfu, "recomputation");
  check("MBU", used.mbu, "bandwidth");
}

}  // namespace

double ideal_seconds(FlopCount flop, FlopRate peak) {
  return flop.to_double() / peak.per_s;
}

double roof_seconds(FlopCount flop, Bytes moved, const Roof& roof) {
  if (!roof.peak || !roof.bandwidth) return flop.to_double();
  double memory = static_cast<double>(moved.count) / roof.bandwidth->per_s;
  return std::max(ideal_seconds(flop, *roof.peak), memory);
}

Fraction of_peak(FlopRate reached, FlopRate peak) {
  return reached / peak;
}

Result<Utilization> utilization_of(const UtilizationInput& input) {
  if (input.duration.count() <= 0) {
    return fail(ErrorCode::invalid_argument, "the time of a step must be above 0");
  }
  if (input.devices == 0)
    return fail(ErrorCode::invalid_argument, "the number of devices must be above 0");
  double devices = static_cast<double>(input.devices);
  double available_s = static_cast<double>(input.duration.count()) / 1e9 * devices;
  Utilization used;
  FlopCount model, compared;
  double needed_s = 0, executed_s = 0;
  bool any = false, executed = true;
  for (const TypedWork& each : input.work) {
    model += each.model_flop;
    bool known = each.peak && each.peak->per_s > 0;
    bool nothing = each.model_flop == FlopCount(0) &&
                   each.hardware_flop.value_or(FlopCount(0)) == FlopCount(0);
    used.complete = used.complete && (known || nothing);
    double seconds = known ? ideal_seconds(each.model_flop, *each.peak) : 0;
    used.by_type.push_back({seconds / available_s});
    if (!known) continue;
    if (!any) used.peak = *each.peak;
    any = true;
    compared += each.model_flop;
    needed_s += seconds;
    executed = executed && each.hardware_flop;
    if (executed) executed_s += ideal_seconds(*each.hardware_flop, *each.peak);
  }
  if (!any) {
    return fail(ErrorCode::invalid_argument,
                "no peak, no utilization: give --device, or --peak FLOP_PER_S");
  }
  used.reached = model / input.duration;
  used.mfu = {needed_s / available_s};
  if (executed) used.hfu = Fraction{executed_s / available_s};
  if (input.work.size() > 1 && needed_s > 0) used.peak = {compared.to_double() / needed_s};
  if (input.moved && input.bandwidth) {
    used.mbu = (*input.moved / input.duration) / ByteRate{input.bandwidth->per_s * devices};
  }
  used.devices = input.devices;
  used.rating = rating_of(used.mfu);
  note_contradictions(used);
  return used;
}

}  // namespace mfu
