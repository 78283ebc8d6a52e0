#include "mfu/utilization.h"

#include <cmath>

namespace mfu {

Result<Plan> plan_run(const PlanInput& input) {
  if (!(input.mfu.value > 0 && input.mfu.value <= 1)) {
    return fail(ErrorCode::invalid_argument, "an MFU above 0% and up to 100% was expected");
  }
  if (input.devices == 0)
    return fail(ErrorCode::invalid_argument, "at least one device was expected");
  if (!(input.peak.per_s > 0)) {
    return fail(ErrorCode::invalid_argument,
                "no peak, no plan: give --device, or --peak FLOP_PER_S");
  }
  if (input.total_flop == FlopCount(0)) {
    return fail(ErrorCode::invalid_argument, "no work to plan: give tokens, or FLOPs");
  }
  Plan plan;
  double devices = static_cast<double>(input.devices);
  double device_seconds = input.total_flop.to_double() / (input.peak.per_s * input.mfu.value);
  plan.devices = input.devices;
  plan.device_hours = device_seconds / 3600;
  plan.days = device_seconds / devices / 86400;
  if (input.price_per_device_hour) plan.cost = plan.device_hours * *input.price_per_device_hour;
  if (input.watts_per_device) plan.energy_kwh = plan.device_hours * *input.watts_per_device / 1000;
  if (input.parameters == 0) return plan;
  double state = static_cast<double>(input.parameters) * input.bytes_per_parameter / devices;
  plan.state_per_device = Bytes{static_cast<std::uint64_t>(std::ceil(state))};
  if (input.memory_per_device && input.memory_per_device->count > 0) {
    plan.state_of_memory = Fraction{state / static_cast<double>(input.memory_per_device->count)};
  }
  return plan;
}

}  // namespace mfu
