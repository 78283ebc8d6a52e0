// The processor as this process may use it: its cores, its instruction set, its clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

// What CPUID (or the ARM auxiliary vector) says.
struct CpuIdentity {
  std::string brand;
  std::string vendor;  // "amd", "intel", "arm"
  bool sse2 = false, avx = false, avx2 = false, fma = false, avx512f = false;
  bool avx512_bf16 = false, avx512_vnni = false, avx_vnni = false, avx512_fp16 = false;
  bool amx_bf16 = false, amx_int8 = false, amx_fp16 = false;
  bool neon = false, arm_fp16 = false, arm_bf16 = false, sdot = false, i8mm = false;
  unsigned sve_bytes = 0;  // of a vector; 0: no SVE
};

// What an AArch64 processor is called: its cores by their part numbers in /proc/cpuinfo, and the
// chip where the machine says whose it is. `maker`: DMI's name of the system's vendor or the SoC
// bus's identity, "" where there is none.
std::string arm_brand(std::string_view cpuinfo, std::string_view maker);

CpuIdentity cpu_identity();

// Physical cores within affinity and cgroup: one processing unit each, to pin to.
struct CpuShare {
  std::vector<unsigned> core_units;  // operating-system number of one processing unit a core
  double core_limit = 0;             // cgroup quota in cores; 0: none
  std::size_t last_cache_bytes = 0;  // all last-level caches of those cores together
  std::uint64_t memory_bytes = 0;

  double cores() const;  // that may run at once
};

// `cpus`: those instead of the affinity of this process, where any are given.
CpuShare cpu_share(const std::vector<std::uint32_t>& cpus = {});

// The tightest cpu quota, in cores, from this cgroup up to the root; 0: none. `proc_cgroup` is the
// text of /proc/self/cgroup, `root` where cgroups are mounted.
double cgroup_core_limit(std::string_view proc_cgroup, const std::string& root);

// One way of doing fused multiply-adds, as wide as this processor can.
struct BurstKernel {
  std::string isa;             // "AVX2 and FMA"
  double flop_per_pipe_cycle;  // of one FMA pipe: lanes × 2
  // Runs about `rounds` inner rounds; returns FLOP done.
  double (*run)(std::uint64_t rounds);
};

// Null `run` where the processor has none of the instruction sets we know.
BurstKernel fp32_kernel(const CpuIdentity& identity);
BurstKernel fp64_kernel(const CpuIdentity& identity);

// Cycles a dependent chain of additions took, for a count of additions: one each on every core we
// know.
void addition_chain(std::uint64_t additions);

// `work` on every core at once, each thread pinned to its own; returns what each gave.
std::vector<double> on_every_core(const CpuShare& share,
                                  const std::function<double(std::size_t core)>& work);

// Best of many sub-millisecond runs on this thread: the machine is shared, the best run was not
// disturbed.
double best_clock_hz(double seconds);
// All rates seen, FLOP/s.
std::vector<double> burst_rates(const BurstKernel& kernel, double seconds);

}  // namespace mfu
