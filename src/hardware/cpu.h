// The processor as this process may use it: its cores, its instruction set and its clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

// What CPUID says, or on ARM the auxiliary vector.
struct CpuIdentity {
  std::string brand;
  std::string vendor;  // "amd", "intel", "arm"
  bool sse2 = false, avx = false, avx2 = false, fma = false, avx512f = false;
  bool avx512_bf16 = false, avx512_vnni = false, avx_vnni = false, avx512_fp16 = false;
  bool amx_bf16 = false, amx_int8 = false, amx_fp16 = false;
  bool neon = false, arm_fp16 = false, arm_bf16 = false, sdot = false, i8mm = false;
  unsigned sve_bytes = 0;  // of a vector; 0 if there is no SVE
};

// The name of an AArch64 processor: its cores by their part numbers in /proc/cpuinfo, and the chip
// if the machine tells its maker. `maker` is DMI's system vendor or the SoC bus's identity, or "".
std::string arm_brand(std::string_view cpuinfo, std::string_view maker);

CpuIdentity cpu_identity();

// The physical cores that affinity and cgroup allow. For each there is one processing unit to pin a
// thread to.
struct CpuShare {
  // one per core: number of a processing unit in the operating system
  std::vector<unsigned> core_units;
  double core_limit = 0;             // cgroup quota in cores; 0 if there is none
  std::size_t last_cache_bytes = 0;  // all last-level caches of those cores together
  std::uint64_t memory_bytes = 0;

  double cores() const;  // how many may run at once
};

// If `cpus` are given, they are used instead of the affinity of this process.
CpuShare cpu_share(const std::vector<std::uint32_t>& cpus = {});

// The smallest CPU quota, in cores, from this cgroup up to the root; 0 if there is none.
// `proc_cgroup` is the text of /proc/self/cgroup, and `root` is where cgroups are mounted.
double cgroup_core_limit(std::string_view proc_cgroup, const std::string& root);

// A way to do fused multiply-adds, with the widest vectors that this processor has.
struct BurstKernel {
  std::string isa;             // "AVX2 and FMA"
  double flop_per_pipe_cycle;  // of one FMA pipe: lanes × 2
  // Runs about `rounds` inner rounds. Returns the FLOPs that were done.
  double (*run)(std::uint64_t rounds);
};

// `run` is null if the processor has none of the instruction sets that we know.
BurstKernel fp32_kernel(const CpuIdentity& identity);
BurstKernel fp64_kernel(const CpuIdentity& identity);

// Runs a chain of dependent additions. Each takes one cycle on every core that we know.
void addition_chain(std::uint64_t additions);

// Runs `work` on every core at once, in threads pinned to their cores. Returns what each returned.
std::vector<double> on_every_core(const CpuShare& share,
                                  const std::function<double(std::size_t core)>& work);

// The best of many runs of less than a millisecond on this thread. On a shared machine the best run
// is the one that nothing disturbed.
double best_clock_hz(double seconds);
// Returns all rates that were measured, in FLOP/s.
std::vector<double> burst_rates(const BurstKernel& kernel, double seconds);

}  // namespace mfu
