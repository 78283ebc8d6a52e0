#include "mfu/machine.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "hardware/gemm.h"
#include "hardware/triad.h"

namespace mfu {
namespace {

// A library that is not installed, or that lacks a type, gives a message. A library that is there
// must give correct products.
void check_products(Result<std::unique_ptr<Gemm>> opened) {
  if (!opened.has_value()) {
    EXPECT_FALSE(opened.error().message.empty());
    return;
  }
  Gemm& gemm = *opened.value();
  for (GemmShape shape : {GemmShape{3, 5, 7}, GemmShape{64, 33, 128}}) {
    Result<void> ready = gemm.prepare(shape);
    if (!ready.has_value()) {
      EXPECT_NE(ready.error().message.find("not supported"), std::string::npos);
      return;
    }
    gemm.run();
    for (std::size_t row = 0; row < shape.m; ++row) {
      for (std::size_t column = 0; column < shape.n; ++column) {
        int sum = 0;
        for (std::size_t k = 0; k < shape.k; ++k) sum += operand_a(row, k) * operand_b(k, column);
        ASSERT_EQ(gemm.product_at(row, column), sum)
            << gemm.method() << " " << row << "," << column;
      }
    }
  }
}

TEST(Gemm, the_libraries_multiply_what_we_think_they_do) {
  for (Precision precision : all_precisions()) {
    check_products(openblas_gemm(precision, 2));
    check_products(onednn_gemm(precision, 2));
  }
}

TEST(Ceiling, a_short_measurement_gives_numbers_or_reasons) {
  FoundDevice cpu = detect_cpu();
  double last = -1;
  Ceiling ceiling = measure_cpu_ceiling(cpu, {.seconds = 0.4, .precisions = {}},
                                        [&](Fraction done, std::string_view) {
                                          EXPECT_GE(done.value, last);
                                          last = done.value;
                                        });
  EXPECT_EQ(last, 1);
  ASSERT_EQ(ceiling.bursts.size(), 2u);
  EXPECT_GT(ceiling.bandwidth->per_s, 1e8);
  for (const Measured& one : ceiling.measured) {
    EXPECT_TRUE(one.rate.has_value() != !one.why_not.empty()) << one.method;
    if (one.rate) {
      EXPECT_GE(*one.rate, *one.median);
    }
  }
  Device measured = with_measured_peak(*cpu.device, ceiling);
  EXPECT_NEAR(measured.peak(Precision::fp32)->rate.per_s / ceiling.bursts[1].rate->per_s, 1, 1e-9);
}

TEST(Ceiling, is_kept_for_its_device_and_conditions_and_a_broken_cache_is_an_empty_one) {
  std::string folder = testing::TempDir() + "mfu_ceiling_cache";
  ::setenv("MFU_CACHE_DIR", folder.c_str(), 1);
  FoundDevice gpu;
  gpu.driver_name = "NVIDIA H100 80GB HBM3";
  gpu.clock_most_hz = 1980e6;
  gpu.power_limit_w = 700;
  Ceiling ceiling;
  ceiling.device = gpu.driver_name;
  ceiling.conditions = conditions_of(gpu);
  Measured bf16;
  bf16.precision = Precision::bf16;
  bf16.method = "PyTorch";
  bf16.rate = FlopRate{794.5e12};
  ceiling.measured.push_back(bf16);
  ceiling.bandwidth = ByteRate{3e12};
  ASSERT_TRUE(store_ceiling(ceiling).has_value());
  ASSERT_TRUE(stored_ceiling(gpu).has_value());
  EXPECT_EQ(stored_ceiling(gpu)->measured.at(0).rate->per_s, 794.5e12);
  EXPECT_EQ(stored_ceiling(gpu)->bandwidth->per_s, 3e12);
  gpu.power_limit_w = 350;  // another cap, another ceiling
  EXPECT_FALSE(stored_ceiling(gpu).has_value());
  gpu.power_limit_w = 700;
  ASSERT_TRUE(write_file(folder + "/ceilings.json", "{broken").has_value());
  EXPECT_FALSE(stored_ceiling(gpu).has_value());
  ASSERT_TRUE(store_ceiling(ceiling).has_value());
  EXPECT_TRUE(stored_ceiling(gpu).has_value());
  ::unsetenv("MFU_CACHE_DIR");
}

TEST(Ceiling, a_python_without_torch_or_none_at_all_is_said) {
  EXPECT_NE(measure_torch_ceilings("no-such-python", {.seconds = 0.1, .precisions = {}}, {})
                .error()
                .message.find("could not be started"),
            std::string::npos);
  EXPECT_FALSE(
      measure_torch_ceilings("true", {.seconds = 0.1, .precisions = {}}, {}).value().size());
}

}  // namespace
}  // namespace mfu
