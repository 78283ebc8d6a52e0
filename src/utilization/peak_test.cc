#include <gtest/gtest.h>

#include "mfu/utilization.h"

namespace mfu {
namespace {

Device device_with(std::initializer_list<std::pair<Precision, double>> peaks) {
  Device device;
  device.name = "A device";
  for (const auto& [precision, tflop_per_s] : peaks) {
    Peak peak;
    peak.precision = precision;
    peak.rate = {tflop_per_s * 1e12};
    peak.source = "a sheet";
    device.peaks.push_back(peak);
  }
  return device;
}

TEST(ChoosePeak, takes_the_types_own_unit) {
  Device device = device_with({{Precision::bf16, 100}, {Precision::fp32, 10}});
  ChosenPeak peak = choose_peak({.device = &device}, "bf16");
  EXPECT_EQ(peak.rate->per_s, 100e12);
  EXPECT_EQ(peak.reason, PeakReason::own_unit);
  EXPECT_EQ(peak.source, "A device, bf16 dense: a sheet");
}

TEST(ChoosePeak, takes_the_next_wider_type_that_the_device_has) {
  Device hopper = device_with({{Precision::fp8, 2000},
                               {Precision::bf16, 1000},
                               {Precision::fp16, 900},
                               {Precision::fp32, 60},
                               {Precision::int8, 1900}});
  struct Case {
    std::string_view type;
    Precision against;
  };
  for (auto [type, against] :
       {Case{"fp4", Precision::fp8}, Case{"fp6", Precision::fp8}, Case{"int4", Precision::int8},
        Case{"tf32", Precision::fp32}, Case{"complex64", Precision::fp32},
        Case{"complex32", Precision::fp16}, Case{"uint8", Precision::int8}}) {
    EXPECT_EQ(choose_peak({.device = &hopper}, type).against, against) << type;
  }
  Device volta = device_with({{Precision::fp16, 125}, {Precision::fp32, 15.7}});
  for (auto [type, against] :
       {Case{"fp4", Precision::fp32}, Case{"fp8", Precision::fp32}, Case{"bf16", Precision::fp32},
        Case{"int4", Precision::fp16}, Case{"int8", Precision::fp16}}) {
    ChosenPeak peak = choose_peak({.device = &volta}, type);
    EXPECT_EQ(peak.against, against) << type;
    EXPECT_EQ(peak.reason, PeakReason::wider_unit) << type;
    EXPECT_EQ(name_of(*peak.precision), type);
  }
}

TEST(ChoosePeak, leaves_unknown_what_is_unknown) {
  Device tpu = device_with({{Precision::bf16, 197}});
  EXPECT_EQ(choose_peak({.device = &tpu}, "fp32").reason, PeakReason::no_unit);
  EXPECT_EQ(choose_peak({.device = &tpu}, "fp64").reason, PeakReason::no_unit);
  EXPECT_EQ(choose_peak({.device = &tpu}, "int64").reason, PeakReason::no_type);
  EXPECT_EQ(choose_peak({}, "bf16").reason, PeakReason::no_device);
  for (const char* type : {"fp32", "fp64", "int64"}) {
    EXPECT_FALSE(choose_peak({.device = &tpu}, type).rate) << type;
  }
  EXPECT_FALSE(choose_peak({}, "bf16").rate);
}

TEST(ChoosePeak, a_rate_that_is_given_wins_and_a_type_that_is_named_stands_for_all) {
  Device device = device_with({{Precision::bf16, 100}, {Precision::fp32, 10}});
  ChosenPeak given = choose_peak({.device = &device, .given = FlopRate{5e12}}, "int64");
  EXPECT_EQ(given.rate->per_s, 5e12);
  EXPECT_EQ(given.reason, PeakReason::given);
  PeakQuestion named{.device = &device, .precision = Precision::fp8};
  EXPECT_EQ(choose_peak(named, "fp32").rate->per_s, 100e12);
  EXPECT_EQ(choose_peak(named, "int64").against, Precision::bf16);
}

// Of 100 FLOP, 40 are in convolutions that may run in TF32 at 80 FLOP/s, and 60 in matmuls that may
// not, at 20 FLOP/s: 40/80 + 60/20 = 3.5 s, so 100/3.5.
TEST(ChoosePeak, tf32_may_be_allowed_for_convolutions_and_not_for_matmuls) {
  Device device = device_with({{Precision::tf32, 80}, {Precision::fp32, 20}});
  auto rate = [&](Tf32 tf32) { return choose_peak({.device = &device}, "fp32", tf32).rate->per_s; };
  EXPECT_EQ(rate({}), 20e12);
  EXPECT_EQ(rate({.matmul = true, .convolution = true}), 80e12);
  EXPECT_EQ(rate({.matmul = true}), 80e12);
  EXPECT_EQ(rate({.convolution = true}), 20e12);
  EXPECT_EQ(rate({.convolution = true, .convolution_fraction = 1}), 80e12);
  EXPECT_EQ(rate({.matmul = true, .convolution_fraction = 1}), 20e12);
  EXPECT_NEAR(rate({.convolution = true, .convolution_fraction = 0.4}), 100 / 3.5 * 1e12, 1);
  Device volta = device_with({{Precision::fp32, 15.7}});
  EXPECT_EQ(choose_peak({.device = &volta}, "fp32", {true, true, 0}).reason, PeakReason::own_unit);
  EXPECT_EQ(choose_peak({.device = &device}, "bf16", {true, true, 0}).against, Precision::fp32);
}

TEST(ChoosePeak, ranks_that_share_a_device_share_its_peak) {
  Device device = device_with({{Precision::fp32, 20}});
  EXPECT_EQ(choose_peak({.device = &device, .sharers = 4}, "fp32").rate->per_s, 5e12);
}

TEST(ChoosePeak, takes_the_accumulation_that_frameworks_use) {
  Device device = *find_device(Catalog::builtin(), "NVIDIA GeForce RTX 4090");
  const Peak* wide = device.peak(Precision::fp16);
  EXPECT_EQ(wide->accumulate, "fp32");
  EXPECT_EQ(choose_peak({.device = &device}, "fp16").rate, wide->rate);
}

TEST(FasterPeak, is_a_type_that_is_faster_by_half) {
  Device device = device_with({{Precision::bf16, 100}, {Precision::fp32, 60}});
  EXPECT_EQ(faster_peak(device, Precision::fp32)->peak.against, Precision::bf16);
  EXPECT_FALSE(faster_peak(device, Precision::bf16));
  Device wide = device_with({{Precision::fp64, 30}, {Precision::bf16, 100}, {Precision::fp32, 60}});
  EXPECT_EQ(faster_peak(wide, Precision::fp64)->peak.against, Precision::fp32);
  EXPECT_FALSE(
      faster_peak(device_with({{Precision::bf16, 80}, {Precision::fp32, 60}}), Precision::fp32));
}

}  // namespace
}  // namespace mfu
