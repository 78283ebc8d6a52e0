#include "mfu/utilization.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

TEST(Plan, turns_flop_into_device_hours_days_cost_and_energy) {
  // 3.6e18 FLOP at 50% of 1e12 on 10 devices: 7.2e6 device-seconds are 2000 hours, or 8.333 days on
  // ten devices.
  Plan plan = plan_run({.total_flop = 3'600'000'000'000'000'000u,
                        .peak = {1e12},
                        .mfu = {0.5},
                        .devices = 10,
                        .price_per_device_hour = 2.5,
                        .watts_per_device = 700,
                        .parameters = 1'000'000'000,
                        .memory_per_device = Bytes{16'000'000'000}})
                  .value();
  EXPECT_DOUBLE_EQ(plan.device_hours, 2000);
  EXPECT_NEAR(plan.days, 8.3333, 1e-4);
  EXPECT_DOUBLE_EQ(*plan.cost, 5000);
  EXPECT_DOUBLE_EQ(*plan.energy_kwh, 1400);
  EXPECT_EQ(plan.state_per_device->count, 1'600'000'000u);
  EXPECT_DOUBLE_EQ(plan.state_of_memory->value, 0.1);
}

TEST(Plan, device_hours_do_not_depend_on_how_many_devices_share_them) {
  PlanInput input{.total_flop = 3'600'000'000'000'000'000u, .peak = {1e12}, .mfu = {0.5}};
  double hours = plan_run(input)->device_hours;
  for (std::uint64_t devices : {2u, 7u, 4096u}) {
    input.devices = devices;
    EXPECT_DOUBLE_EQ(plan_run(input)->device_hours, hours);
  }
}

TEST(Plan, refuses_what_makes_no_sense) {
  PlanInput good{.total_flop = 1u, .peak = {1e12}, .mfu = {0.5}};
  EXPECT_TRUE(plan_run(good).has_value());
  for (double mfu : {0.0, -0.1, 1.1}) {
    PlanInput wrong = good;
    wrong.mfu = {mfu};
    EXPECT_FALSE(plan_run(wrong).has_value()) << mfu;
  }
  PlanInput none = good;
  none.total_flop = 0u;
  EXPECT_FALSE(plan_run(none).has_value());
}

}  // namespace
}  // namespace mfu
