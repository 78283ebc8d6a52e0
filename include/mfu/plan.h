// From FLOPs to devices, days, cost, energy and memory.
//
//   auto plan = mfu::plan_run({.total_flop = total, .peak = {989.4e12}, .mfu = {0.4}, .devices =
//   1024}); plan->days;
#pragma once

#include <cstdint>
#include <optional>

#include "mfu/result.h"
#include "mfu/units.h"

namespace mfu {

struct PlanInput {
  FlopCount total_flop;
  FlopRate peak;  // dense, of one device
  Fraction mfu;
  std::uint64_t devices = 1;
  std::optional<double> price_per_device_hour{};  // in whatever currency
  std::optional<double> watts_per_device{};
  // Memory of training: weights, gradients and optimizer states, spread over all devices.
  std::uint64_t parameters = 0;
  double bytes_per_parameter =
      16;  // bf16 weight and gradient, fp32 master copy and two Adam moments
  std::optional<Bytes> memory_per_device{};
};

struct Plan {
  std::uint64_t devices = 0;
  double device_hours = 0;
  double days = 0;
  std::optional<double> cost;
  std::optional<double> energy_kwh;
  std::optional<Bytes> state_per_device;    // activations are not in it; none without a model
  std::optional<Fraction> state_of_memory;  // above 1: it does not fit
};

// `invalid_argument` for an MFU outside 0..1, no devices, no work or no peak.
Result<Plan> plan_run(const PlanInput& input);

}  // namespace mfu
