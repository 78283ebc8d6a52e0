#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hardware/cpu.h"
#include "hardware/cpu_peak.h"
#include "mfu/machine.h"

namespace mfu {

namespace {

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double best(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

void add_peak(Device& device, Precision precision, double flop_per_cycle, const CpuClock& clock,
              const std::string& how, bool matrix) {
  Peak peak;
  peak.precision = precision;
  peak.matrix = matrix;
  peak.accumulate = precision == Precision::fp64   ? "fp64"
                    : precision == Precision::int8 ? "int32"
                                                   : "fp32";
  peak.rate = {clock.all_cores_hz * flop_per_cycle};
  peak.source = fmt::format("{:g} core{} × {:g} FLOP/cycle ({}) × {:.2f} GHz {}", clock.cores,
                            clock.cores == 1 ? "" : "s", flop_per_cycle, how,
                            clock.all_cores_hz / clock.cores / 1e9, clock.how);
  peak.confidence = Confidence::derived;
  device.peaks.push_back(std::move(peak));
}

}  // namespace

// FLOP per core and cycle. VNNI does 4 int8 products per 32-bit lane, so 4 × fp32. AVX512-BF16 does
// 2 × fp32. AMX does 1024 bf16 and 2048 int8 operations (Intel 64 and IA-32 Optimization Reference
// Manual, chapter on AMX: a 16×16 tile product over 64 bytes in 16 cycles). On Arm, for a vector of
// 128 bits and each pipe: FMLA on fp16 has twice the lanes of fp32; SDOT does four products per
// 32-bit lane; SMMLA and BFMMLA do a 2×2 product over 8 int8 or 4 bf16, which is 64 and 32
// operations where fp32 has 8.
void set_cpu_peaks(Device& device, const CpuIdentity& cpu, const CpuClock& clock) {
  device.peaks.clear();
  BurstKernel single = fp32_kernel(cpu);
  BurstKernel twice = fp64_kernel(cpu);
  if (single.run == nullptr || clock.all_cores_hz <= 0) return;
  std::string how =
      fmt::format("{}, {} pipe{}", single.isa, clock.pipes, clock.pipes == 1 ? "" : "s");
  double fp32 = single.flop_per_pipe_cycle * clock.pipes;
  add_peak(device, Precision::fp64, twice.flop_per_pipe_cycle * clock.pipes, clock, how, false);
  add_peak(device, Precision::fp32, fp32, clock, how, false);
  if (cpu.amx_fp16) {
    add_peak(device, Precision::fp16, 1024, clock, "AMX-FP16", true);
  } else if (cpu.avx512_fp16) {
    add_peak(device, Precision::fp16, 2 * fp32, clock, "AVX512-FP16", false);
  } else if (cpu.arm_fp16) {
    add_peak(device, Precision::fp16, 2 * fp32, clock, "FMLA on fp16", false);
  }
  if (cpu.amx_bf16) {
    add_peak(device, Precision::bf16, 1024, clock, "AMX-BF16", true);
  } else if (cpu.avx512_bf16) {
    add_peak(device, Precision::bf16, 2 * fp32, clock, "AVX512-BF16", false);
  } else if (cpu.arm_bf16) {
    add_peak(device, Precision::bf16, 4 * fp32, clock, "BFMMLA", true);
  }
  if (cpu.amx_int8) {
    add_peak(device, Precision::int8, 2048, clock, "AMX-INT8", true);
  } else if (cpu.avx512_vnni || cpu.avx_vnni) {
    add_peak(device, Precision::int8, 4 * fp32, clock, "VNNI", false);
  } else if (cpu.i8mm) {
    add_peak(device, Precision::int8, 8 * fp32, clock, "I8MM", true);
  } else if (cpu.sdot) {
    add_peak(device, Precision::int8, 4 * fp32, clock, "SDOT", false);
  }
}

CpuClock measure_cpu_clock(const CpuIdentity& cpu, const CpuShare& share) {
  constexpr double kSeconds = 0.003;
  CpuClock clock;
  clock.cores = share.cores();
  clock.how = "measured";
  // Cores of one kind are equally fast. A core that other work used meanwhile looks slower, so each
  // core counts as the best of its kind. Cores within a fifth of each other are of one kind; an
  // efficiency core is slower by more.
  std::vector<double> clocks =
      on_every_core(share, [](std::size_t) { return best_clock_hz(kSeconds); });
  double most = best(clocks);
  for (double& each : clocks) each = each > 0.8 * most ? most : each;
  clock.all_cores_hz = sum(clocks) * clock.cores / static_cast<double>(clocks.size());
  BurstKernel kernel = fp32_kernel(cpu);
  if (kernel.run != nullptr && most > 0) {
    std::vector<double> rates =
        on_every_core(share, [&](std::size_t) { return best(burst_rates(kernel, kSeconds)); });
    clock.pipes =
        std::max(1, static_cast<int>(std::lround(best(rates) / most / kernel.flop_per_pipe_cycle)));
  }
  return clock;
}

FoundDevice detect_cpu(const std::vector<std::uint32_t>& cpus) {
  FoundDevice found;
  CpuIdentity cpu = cpu_identity();
  CpuShare share = cpu_share(cpus);
  CpuClock clock = measure_cpu_clock(cpu, share);
  found.driver_name =
      fmt::format("{} ({:g} core{})", cpu.brand, clock.cores, clock.cores == 1 ? "" : "s");
#if defined(__aarch64__)
  found.source = "/proc/cpuinfo and hwloc";
#else
  found.source = "CPUID and hwloc";
#endif
  found.memory = Bytes{share.memory_bytes};
  found.clock_hz = clock.all_cores_hz / clock.cores;
  Device device;
  device.name = found.driver_name;
  device.vendor = cpu.vendor;
  device.kind = "cpu";
  device.unit = "cores";
  device.architecture = fp32_kernel(cpu).isa;
  device.memory = found.memory;
  device.units = static_cast<std::uint32_t>(share.core_units.size());
  device.clock_hz = found.clock_hz;
  set_cpu_peaks(device, cpu, clock);
  if (device.peaks.empty()) {
    found.notes.push_back({"processor_not_known", {}});
    return found;
  }
  if (share.core_limit > 0 && share.core_limit < static_cast<double>(share.core_units.size())) {
    device.notes.push_back({"cgroup_cores",
                            {{"cores", share.core_limit},
                             {"all", static_cast<std::int64_t>(share.core_units.size())}}});
  }
  if (device.peak(Precision::bf16) == nullptr) {
    device.notes.push_back({"no_half_unit", {}});
  }
  device.notes.push_back({"bandwidth_not_measured", {}});
  found.device = std::move(device);
  return found;
}

}  // namespace mfu
