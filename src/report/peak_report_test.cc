#include <gtest/gtest.h>

#include "mfu/report.h"

namespace mfu {
namespace {

Machine machine_with(double peak_flop_per_s) {
  FoundDevice found;
  found.driver_name = "ACME Z9";
  Device device;
  device.name = "Z9";
  device.kind = "gpu";
  Peak peak;
  peak.precision = Precision::bf16;
  peak.rate = {peak_flop_per_s};
  device.peaks.push_back(peak);
  found.device = device;
  return {{found}, {}};
}

Ceiling ceiling_with(double flop_per_s) {
  Ceiling ceiling;
  Measured measured;
  measured.precision = Precision::bf16;
  measured.method = "PyTorch";
  measured.rate = FlopRate{flop_per_s};
  ceiling.measured.push_back(measured);
  return ceiling;
}

TEST(PeakReport, a_ceiling_is_a_fraction_of_the_peak) {
  PeakReport report = report_machine(machine_with(989e12), {ceiling_with(794.5e12)});
  EXPECT_NEAR(report.devices[0].measured[0].of_peak->value, 0.8033, 0.0001);
  EXPECT_TRUE(report.devices[0].notes.empty());
}

TEST(PeakReport, above_the_peak_is_a_contradiction_that_names_its_suspect_and_is_not_clamped) {
  PeakReport report = report_machine(machine_with(500e12), {ceiling_with(794.5e12)});
  EXPECT_NEAR(report.devices[0].measured[0].of_peak->value, 1.589, 0.001);
  ASSERT_EQ(report.devices[0].notes.size(), 1u);
  EXPECT_EQ(report.devices[0].notes[0].code, "measured_above_peak");
  EXPECT_EQ(report.devices[0].notes[0].values.back().second, NoteValue("catalogue_clock"));
}

TEST(PeakReport, a_device_nobody_knows_has_no_peak_and_says_so) {
  Machine machine;
  FoundDevice& found = machine.devices.emplace_back();
  found.driver_name = "NVIDIA Z9000";
  found.notes.push_back({"no_peak_because", {{"why", "…"}}});
  PeakReport report = report_machine(machine, {});
  EXPECT_TRUE(report.devices[0].device.peaks.empty());
  EXPECT_EQ(report.devices[0].notes, found.notes);
}

TEST(PeakReport, an_unverified_row_carries_a_note) {
  Machine machine = machine_with(1e12);
  machine.devices[0].device->peaks[0].confidence = Confidence::unverified;
  EXPECT_EQ(report_devices({*machine.devices[0].device}).devices[0].notes.back(),
            Note("types_unverified", {{"dtypes", "bf16"}}));
}

}  // namespace
}  // namespace mfu
