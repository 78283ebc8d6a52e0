#include "hardware/cpu.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "hardware/cpu_peak.h"
#include "mfu/machine.h"

namespace mfu {
namespace {

TEST(Cpu, this_processor_has_cores_a_clock_and_a_peak) {
  FoundDevice cpu = detect_cpu();
  ASSERT_TRUE(cpu.device.has_value()) << cpu.notes.at(0).code;
  EXPECT_GT(cpu.clock_hz.value(), 2e8);
  EXPECT_LT(cpu.clock_hz.value(), 1e10);
  const Peak* single = cpu.device->peak(Precision::fp32);
  const Peak* twice = cpu.device->peak(Precision::fp64);
  EXPECT_DOUBLE_EQ(single->rate.per_s, 2 * twice->rate.per_s);
  EXPECT_NE(single->source.find("GHz measured"), std::string::npos);
}

TEST(Cpu, the_peak_is_cores_times_flop_a_cycle_times_clock) {
  Device device;
  CpuIdentity identity;
  identity.avx = identity.avx2 = identity.fma = identity.sse2 = true;
  CpuClock clock{.cores = 2, .all_cores_hz = 6.48e9, .pipes = 2, .how = "measured"};
  set_cpu_peaks(device, identity, clock);
#if defined(__x86_64__)
  // 8 lanes x 2 FLOP x 2 pipes x 6.48e9 = 207.36e9
  EXPECT_DOUBLE_EQ(device.peak(Precision::fp32)->rate.per_s, 207.36e9);
  EXPECT_EQ(device.peak(Precision::bf16), nullptr);
  identity.avx512f = identity.avx512_bf16 = identity.avx512_vnni = true;
  set_cpu_peaks(device, identity, clock);
  EXPECT_DOUBLE_EQ(device.peak(Precision::fp32)->rate.per_s, 414.72e9);
  EXPECT_DOUBLE_EQ(device.peak(Precision::bf16)->rate.per_s, 829.44e9);
  EXPECT_DOUBLE_EQ(device.peak(Precision::int8)->rate.per_s, 1658.88e9);
  identity.amx_bf16 = identity.amx_int8 = true;
  set_cpu_peaks(device, identity, clock);
  // 1024 bf16 and 2048 int8 operations a core and cycle
  EXPECT_DOUBLE_EQ(device.peak(Precision::bf16)->rate.per_s, 6.48e9 * 1024);
  EXPECT_DOUBLE_EQ(device.peak(Precision::int8)->rate.per_s, 6.48e9 * 2048);
#endif
}

TEST(Cpu, an_arm_processor_is_called_by_its_part_number) {
  auto cores = [](const char* implementer, const char* part) {
    return fmt::format(
        "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: {}\nCPU part\t: {}\n", implementer,
        part);
  };
  EXPECT_EQ(arm_brand(cores("0x41", "0xd0c"), ""), "Neoverse N1");
  EXPECT_EQ(arm_brand(cores("0x41", "0xd49"), ""), "Neoverse N2");
  EXPECT_EQ(arm_brand(cores("0x41", "0xd40"), "Amazon EC2\n"), "AWS Graviton3 (Neoverse V1)");
  EXPECT_EQ(arm_brand(cores("0x41", "0xd4f"), "Amazon EC2\n"), "AWS Graviton4 (Neoverse V2)");
  EXPECT_EQ(arm_brand(cores("0x41", "0xd4f"), "jep106:036b:0241\n"), "NVIDIA Grace (Neoverse V2)");
  EXPECT_EQ(arm_brand(cores("0x41", "0xd4f"), "Google"), "Neoverse V2");
  EXPECT_EQ(arm_brand(cores("0xc0", "0xac3"), ""), "AmpereOne");
  EXPECT_EQ(arm_brand(cores("0x46", "0x001"), ""), "Fujitsu A64FX");
  EXPECT_EQ(arm_brand(cores("0x41", "0xfff"), ""), "AArch64 processor 0x41/0xfff");
  EXPECT_EQ(arm_brand(cores("0x41", "0xd05") + cores("0x41", "0xd0b"), ""),
            "Cortex-A55 and Cortex-A76");
  EXPECT_EQ(arm_brand("model name\t: ARMv8\n", ""), "ARMv8");
  for (const char* wrong : {"", "CPU part", "CPU part\t: \n", "CPU part\t: 0xzz\n", ":\n"}) {
    EXPECT_EQ(arm_brand(wrong, ""), "AArch64 processor");
  }
}

#if defined(__aarch64__)
TEST(Cpu, an_arm_peak_is_that_of_its_widest_instructions) {
  Device device;
  CpuIdentity identity;
  identity.neon = identity.arm_fp16 = identity.sdot = true;
  CpuClock clock{.cores = 1, .all_cores_hz = 1e9, .pipes = 2, .how = "measured"};
  set_cpu_peaks(device, identity, clock);
  // 4 lanes x 2 FLOP x 2 pipes x 1e9 = 16e9; fp16 twice, SDOT four times that
  EXPECT_DOUBLE_EQ(device.peak(Precision::fp32)->rate.per_s, 16e9);
  EXPECT_DOUBLE_EQ(device.peak(Precision::fp16)->rate.per_s, 32e9);
  EXPECT_DOUBLE_EQ(device.peak(Precision::int8)->rate.per_s, 64e9);
  identity.i8mm = identity.arm_bf16 = true;
  identity.sve_bytes = 64;  // A64FX's width
  set_cpu_peaks(device, identity, clock);
  // 16 lanes x 2 x 2 x 1e9 = 64e9; BFMMLA 4 and SMMLA 8 times that
  EXPECT_DOUBLE_EQ(device.peak(Precision::fp32)->rate.per_s, 64e9);
  EXPECT_DOUBLE_EQ(device.peak(Precision::bf16)->rate.per_s, 256e9);
  EXPECT_DOUBLE_EQ(device.peak(Precision::int8)->rate.per_s, 512e9);
}
#endif

TEST(Cpu, every_kernel_that_runs_here_does_the_work_it_says) {
  CpuIdentity identity = cpu_identity();
  for (BurstKernel kernel : {fp32_kernel(identity), fp64_kernel(identity)}) {
    ASSERT_NE(kernel.run, nullptr);
#if defined(__aarch64__)
    constexpr int kAccumulators = 24;
#else
    constexpr int kAccumulators = 12;
#endif
    EXPECT_DOUBLE_EQ(kernel.run(10), 10 * kAccumulators * kernel.flop_per_pipe_cycle);
  }
#if defined(__x86_64__)
  // The same processors with narrower instruction sets.
  identity.avx512f = identity.fma = false;
  EXPECT_EQ(fp32_kernel(identity).isa, identity.avx ? "AVX" : "SSE2");
  fp32_kernel(identity).run(10);
  identity.avx = false;
  EXPECT_EQ(fp64_kernel(identity).isa, "SSE2");
  EXPECT_DOUBLE_EQ(fp64_kernel(identity).run(10), 240);
#endif
}

TEST(Cpu, the_tightest_cgroup_quota_on_the_way_up_counts) {
  std::string root = testing::TempDir() + "mfu_cgroup";
  ASSERT_TRUE(write_file(root + "/a/b/cpu.max", "max 100000\n").has_value());
  ASSERT_TRUE(write_file(root + "/a/cpu.max", "150000 100000\n").has_value());
  ASSERT_TRUE(write_file(root + "/cpu.max", "800000 100000\n").has_value());
  EXPECT_DOUBLE_EQ(cgroup_core_limit("0::/a/b\n", root), 1.5);
  EXPECT_DOUBLE_EQ(cgroup_core_limit("0::/\n", root), 8);
  ASSERT_TRUE(write_file(root + "/cpu,cpuacct/x/cpu.cfs_quota_us", "50000\n").has_value());
  ASSERT_TRUE(write_file(root + "/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n").has_value());
  EXPECT_DOUBLE_EQ(cgroup_core_limit("4:cpu,cpuacct:/x\n", root), 0.5);
  ASSERT_TRUE(write_file(root + "/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n").has_value());
  EXPECT_DOUBLE_EQ(cgroup_core_limit("4:cpu,cpuacct:/x\n", root), 0);
  for (const char* wrong : {"", "garbage", "0::", "a:b:c:d\n", "0::/../../x\n"}) {
    cgroup_core_limit(wrong, root);
  }
}

TEST(Cpu, a_share_of_the_machine_has_at_least_one_core) {
  CpuShare share = cpu_share();
  EXPECT_GE(share.core_units.size(), 1u);
  EXPECT_GT(share.cores(), 0);
  share.core_limit = 0.5;
  EXPECT_DOUBLE_EQ(share.cores(), 0.5);
}

}  // namespace
}  // namespace mfu
