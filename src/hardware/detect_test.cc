// The drivers are stand-ins that the tests build. No GPU is needed, and none was used.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "mfu/machine.h"

namespace mfu {
namespace {

struct FakeDrivers {
  explicit FakeDrivers(const char* mode, const char* nvml = "fake_nvml.so",
                       const char* amd = "none.so", const char* rocm = "none.so") {
    ::setenv("MFU_FAKE_MODE", mode, 1);
    ::setenv("MFU_NVML", (std::string(MFU_FAKE_DIR "/") + nvml).c_str(), 1);
    ::setenv("MFU_AMD_SMI", (std::string(MFU_FAKE_DIR "/") + amd).c_str(), 1);
    ::setenv("MFU_ROCM_SMI", (std::string(MFU_FAKE_DIR "/") + rocm).c_str(), 1);
    machine = detect_machine(Catalog::builtin(), diagnostics);
  }
  Diagnostics diagnostics;
  Machine machine;
  const FoundDevice& first() const { return machine.devices.at(0); }
};

TEST(Detect, what_nvml_says_is_found_and_looked_up) {
  FakeDrivers fake("ok");
  ASSERT_EQ(fake.machine.devices.size(), 2u);  // and the processor
  EXPECT_EQ(fake.first().driver_name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(fake.first().device->name, "H100-SXM5-80GB");
  EXPECT_EQ(fake.first().memory->count, 85520809984u);
  EXPECT_EQ(fake.first().clock_hz, 1755e6);
  EXPECT_EQ(fake.first().clock_most_hz, 1980e6);
  EXPECT_EQ(fake.first().power_limit_w, 700);
  EXPECT_EQ(fake.first().pci, "00000000:65:00.0");
  EXPECT_EQ(fake.first().uuid, "GPU-0f1e2d3c");
  EXPECT_TRUE(fake.diagnostics.warnings().empty());
}

TEST(Detect, an_old_driver_lacks_figures_not_devices) {
  for (FakeDrivers fake : {FakeDrivers("ok", "fake_nvml_old.so"), FakeDrivers("errors")}) {
    ASSERT_EQ(fake.machine.devices.size(), 2u);
    EXPECT_EQ(fake.first().device->name, "H100-SXM5-80GB");
    EXPECT_FALSE(fake.first().memory.has_value());
    EXPECT_FALSE(fake.first().power_limit_w.has_value());
  }
}

TEST(Detect, a_gpu_in_mig_mode_is_its_slices) {
  FakeDrivers fake("mig");
  ASSERT_EQ(fake.machine.devices.size(), 3u);
  EXPECT_EQ(fake.first().partition, "1g.5gb");
  EXPECT_EQ(fake.first().device->unit, "slice");
  EXPECT_NEAR(fake.first().device->peak(Precision::bf16)->rate.per_s, 40.444e12, 0.001e12);
}

TEST(Detect, a_slice_that_the_driver_does_not_name_is_said_to_be_a_guess) {
  FakeDrivers fake("nameless");
  ASSERT_EQ(fake.machine.devices.size(), 3u);
  EXPECT_EQ(fake.first().partition, "1g.5gb");
  ASSERT_FALSE(fake.first().notes.empty());
  EXPECT_EQ(fake.first().notes[0].code, "profile_guessed");
  EXPECT_EQ(fake.first().notes[0].values[0].second, NoteValue("1g.5gb"));
}

TEST(Detect, a_driver_that_crashes_hangs_or_fails_costs_one_line_and_no_time) {
  for (const char* mode : {"crash", "hang", "init_fails"}) {
    auto start = std::chrono::steady_clock::now();
    FakeDrivers fake(mode);
    EXPECT_EQ(fake.machine.devices.size(), 1u) << mode;  // the processor
    EXPECT_EQ(fake.diagnostics.warnings().size(), 1u) << mode;
    EXPECT_FALSE(fake.machine.probes[0].works) << mode;
    EXPECT_FALSE(fake.machine.probes[0].remedy.empty()) << mode;
    // This is not a speed test. It checks that nothing waits for a dead driver, with room for a
    // busy machine.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15)) << mode;
  }
}

TEST(Detect, a_driver_that_lies_is_not_believed) {
  EXPECT_EQ(FakeDrivers("zero").machine.devices.size(), 1u);
  EXPECT_EQ(FakeDrivers("absurd").machine.devices.size(), 2u);
  FakeDrivers garbage("garbage");
  EXPECT_EQ(garbage.first().driver_name, "?\xEF\xBF\xBD?[31mNVI");
  EXPECT_FALSE(garbage.first().device.has_value());
  FakeDrivers unknown("unknown");
  EXPECT_FALSE(unknown.first().device.has_value());
  const Note& why = unknown.first().notes.at(0);
  EXPECT_EQ(why.code, "no_peak_because");
  EXPECT_NE(std::get<std::string>(why.values.at(0).second).find(unknown.first().driver_name),
            std::string::npos);
}

TEST(Detect, amd_smi_names_partitions_and_its_word_counts_before_rocm_smi) {
  FakeDrivers fake("ok", "none.so", "fake_amd_smi.so", "fake_rocm_smi.so");
  ASSERT_EQ(fake.machine.devices.size(), 3u);
  EXPECT_EQ(fake.first().device->name, "MI300X");
  EXPECT_EQ(fake.first().pci, "0000:c9:00.0");
  EXPECT_EQ(fake.first().power_limit_w, 560);  // from ROCm SMI, for the card at the same address
  EXPECT_EQ(fake.first().clock_most_hz, 1700e6);
  EXPECT_EQ(fake.machine.devices[1].device->units, 38u);
  EXPECT_FALSE(fake.machine.devices[1].power_limit_w.has_value());
}

TEST(Detect, rocm_smi_is_understood_before_and_since_version_6) {
  for (const char* mode : {"ok", "earlier"}) {
    FakeDrivers fake(mode, "none.so", "none.so", "fake_rocm_smi.so");
    ASSERT_EQ(fake.machine.devices.size(), 2u) << mode;
    EXPECT_EQ(fake.first().device->name, "MI250X (GCD)");
    EXPECT_EQ(fake.first().clock_hz, 800e6) << mode;
    EXPECT_EQ(fake.first().clock_most_hz, 1700e6) << mode;
    EXPECT_EQ(fake.first().power_limit_w, 560);
    EXPECT_EQ(fake.first().pci, "0000:c9:00.0");
  }
}

}  // namespace
}  // namespace mfu
