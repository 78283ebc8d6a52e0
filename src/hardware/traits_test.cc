#include <gtest/gtest.h>

#include "mfu/hardware.h"

namespace mfu {
namespace {

constexpr std::uint64_t kMb = 1u << 20;

struct Case {
  const char* name;
  const char* architecture;
  std::optional<std::uint32_t> units;
  std::uint64_t memory_mb;
  const char* device;  // "": none
  double bf16_tflop;   // 0: not asked
};

// Names, architectures, units and memory as torch prints them, taken from public logs.
constexpr Case kCases[] = {
    {"AMD Instinct MI250X / MI250", "gfx90a:sramecc+:xnack-", 110, 65520, "MI250X (GCD)", 191.5},
    {"AMD Instinct MI250X/MI250", "gfx90a", 110, 65520, "MI250X (GCD)", 191.5},
    {"AMD Instinct MI250X / MI250", "gfx90a:sramecc+:xnack-", 104, 65520, "MI250 (GCD)", 181},
    // or MI250: same peaks
    {"AMD Radeon Graphics", "gfx90a:sramecc+:xnack-", 104, 65520, "MI210", 181},
    {"AMD Radeon Graphics", "gfx942:sramecc+:xnack-", 304, 196592, "MI300X", 1307.4},
    {"AMD Radeon Graphics", "gfx942:sramecc+:xnack-", 304, 262128, "MI325X", 1307.4},
    {"AMD Radeon Graphics", "gfx942:sramecc+:xnack-", 228, 131072, "MI300A", 980.6},
    {"AMD Radeon Graphics", "gfx1151", 20, 104906, "Radeon 8060S", 0},  // work-group processors
    {"Radeon 8060S Graphics", "gfx1151", 20, 64038, "Radeon 8060S", 0},
    {"AMD Radeon RX 7900 XTX", "gfx1100", 48, 24560, "RX 7900 XTX", 0},
    {"AMD Radeon Graphics", "gfx1100", 48, 24560, "RX 7900 XTX", 0},
    {"AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 304, 196592, "MI300X", 1307.4},
    {"AMD Instinct MI300X VF", "gfx942:sramecc+:xnack-", 304, 196592, "MI300X", 1307.4},
    // Partitions are recognised by what the device says of itself.
    {"AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 38, 24574, "MI300X CPX", 163.425},
    {"AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 38, 196592, "MI300X CPX", 163.425},
    {"AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 152, 98296, "MI300X DPX", 653.7},
    {"AMD Instinct MI355X", "gfx950", 32, 36864, "MI355X CPX", 0},
    {"NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", "sm_90", 16, 40448, "H100-SXM5-80GB 1c.3g.40gb",
     119.93},
    {"NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb", "sm_80", 14, 40192, "A100-SXM4-80GB 1c.3g.40gb",
     40.444},
    {"NVIDIA A100-SXM4-40GB MIG 3g.20gb", "sm_80", 42, 20096, "A100-SXM4-40GB 3g.20gb", 121.333},
    // Only the name is known.
    {"NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb", "", std::nullopt, 0, "A100-SXM4-80GB 1c.3g.40gb",
     40.444},
    {"NVIDIA A100-SXM4-80GB", "", std::nullopt, 0, "A100-SXM4-80GB", 312},
    // A device that nobody published stays unknown, even if its name resembles another's.
    {"AMD Instinct MI308X", "gfx942:sramecc+:xnack-", 80, 196592, "", 0},
    {"AMD Radeon Graphics", "gfx942:sramecc+:xnack-", 80, 196592, "", 0},
    {"AMD Radeon Graphics", "gfx1036", 1, 512, "", 0},
    {"AMD Radeon Graphics", "", std::nullopt, 0, "", 0},
    {"AMD Radeon Graphics", "gfx942", std::nullopt, 196592, "", 0},
};

TEST(Traits, say_which_device_it_is_where_its_name_does_not) {
  for (const Case& each : kCases) {
    DeviceTraits traits{.name = each.name, .architecture = each.architecture, .units = each.units};
    if (each.memory_mb > 0) traits.memory = Bytes{each.memory_mb * kMb};
    Result<Device> device = identify_device(Catalog::builtin(), traits);
    std::string what = std::string(each.name) + " " + each.architecture + " " +
                       std::to_string(each.units.value_or(0));
    if (*each.device == 0) {
      EXPECT_FALSE(device.has_value()) << what << ": " << (device ? device->name : "");
      continue;
    }
    ASSERT_TRUE(device.has_value()) << what << ": " << device.error().message;
    EXPECT_EQ(device->name, each.device) << what;
    if (each.bf16_tflop > 0) {
      ASSERT_NE(device->peak(Precision::bf16), nullptr) << what;
      EXPECT_NEAR(device->peak(Precision::bf16)->rate.per_s / 1e12, each.bf16_tflop,
                  2e-3 * each.bf16_tflop)
          << what;
    }
  }
}

TEST(Traits, a_partition_says_that_it_is_one) {
  Result<Device> device = identify_device(
      Catalog::builtin(), {.name = "AMD Instinct MI300X", .architecture = "gfx942", .units = 38});
  ASSERT_TRUE(device.has_value());
  EXPECT_EQ(device->unit, "slice");
  ASSERT_FALSE(device->notes.empty());
  EXPECT_EQ(device->notes.back(),
            Note("share_of_units",
                 {{"units", std::int64_t{38}}, {"device", "MI300X"}, {"all", std::int64_t{304}}}));
}

TEST(Traits, more_units_than_the_catalogue_knows_are_said_and_not_scaled) {
  Result<Device> device = identify_device(
      Catalog::builtin(), {.name = "NVIDIA A100-SXM4-80GB", .architecture = "sm_80", .units = 128});
  ASSERT_TRUE(device.has_value());
  EXPECT_NEAR(device->peak(Precision::bf16)->rate.per_s, 312e12, 1e9);
  ASSERT_FALSE(device->notes.empty());
}

}  // namespace
}  // namespace mfu
