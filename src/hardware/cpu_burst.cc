// Measures what the processor's pipes can do, with fused multiply-adds in registers and nothing
// else. Each kernel has more independent accumulators than latency × pipes (5 cycles × 2 pipes on
// the processors we know).
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "hardware/cpu.h"

namespace mfu {

namespace {

constexpr std::size_t kFewestRuns = 12;  // so that one is undisturbed even if the core is shared
constexpr double kPatience = 4;          // gives up after this many times the time asked for

// This is assembly, so that the twelve accumulators stay in registers and no file needs its own
// compiler flags. Values stay small and normal, because denormal ones would be slow.
#define MFU_TWELVE(even, odd)                                                                    \
  even("0") odd("1") even("2") odd("3") even("4") odd("5") even("6") odd("7") even("8") odd("9") \
      even("10") odd("11")

#if defined(__x86_64__)

constexpr int kAccumulators = 12;

// `load(register)` fills one register. `even` and `odd` are the steps of every second accumulator.
#define MFU_BURST(name, kind, broadcast, pair, even, odd, end, flop_a_step)                      \
  double name(std::uint64_t rounds) {                                                            \
    static const pair kBy = 0.999999f;                                                           \
    static const pair kPlus = 1e-6f;                                                             \
    std::uint64_t left = rounds;                                                                 \
    asm volatile(broadcast("%[plus]", "14") broadcast("%[by]", "15")                             \
                     MFU_TWELVE(MFU_FROM_##kind, MFU_FROM_##kind) ".p2align 4\n1:\n" MFU_TWELVE( \
                         even, odd) "dec %[left]\njnz 1b\n" end                                  \
                 : [left] "+r"(left)                                                             \
                 : [by] "m"(kBy), [plus] "m"(kPlus)                                              \
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
                   "xmm9", "xmm10", "xmm11", "xmm14", "xmm15");                                  \
    return static_cast<double>(rounds) * kAccumulators * (flop_a_step);                          \
  }

#define MFU_FROM_zmm(i) "vmovaps %%zmm15, %%zmm" i "\n"
#define MFU_FROM_ymm(i) "vmovaps %%ymm15, %%ymm" i "\n"
#define MFU_FROM_xmm(i) "movaps %%xmm15, %%xmm" i "\n"
#define MFU_ZMM_PS(from, i) "vbroadcastss " from ", %%zmm" i "\n"
#define MFU_ZMM_PD(from, i) "vbroadcastsd " from ", %%zmm" i "\n"
#define MFU_YMM_PS(from, i) "vbroadcastss " from ", %%ymm" i "\n"
#define MFU_YMM_PD(from, i) "vbroadcastsd " from ", %%ymm" i "\n"
#define MFU_XMM_PS(from, i) "movss " from ", %%xmm" i "\nshufps $0, %%xmm" i ", %%xmm" i "\n"
#define MFU_XMM_PD(from, i) "movsd " from ", %%xmm" i "\nunpcklpd %%xmm" i ", %%xmm" i "\n"
#define MFU_FMA_ZMM_PS(i) "vfmadd132ps %%zmm15, %%zmm14, %%zmm" i "\n"
#define MFU_FMA_ZMM_PD(i) "vfmadd132pd %%zmm15, %%zmm14, %%zmm" i "\n"
#define MFU_FMA_YMM_PS(i) "vfmadd132ps %%ymm15, %%ymm14, %%ymm" i "\n"
#define MFU_FMA_YMM_PD(i) "vfmadd132pd %%ymm15, %%ymm14, %%ymm" i "\n"
#define MFU_MUL_YMM_PS(i) "vmulps %%ymm15, %%ymm" i ", %%ymm" i "\n"
#define MFU_ADD_YMM_PS(i) "vaddps %%ymm14, %%ymm" i ", %%ymm" i "\n"
#define MFU_MUL_YMM_PD(i) "vmulpd %%ymm15, %%ymm" i ", %%ymm" i "\n"
#define MFU_ADD_YMM_PD(i) "vaddpd %%ymm14, %%ymm" i ", %%ymm" i "\n"
#define MFU_MUL_XMM_PS(i) "mulps %%xmm15, %%xmm" i "\n"
#define MFU_ADD_XMM_PS(i) "addps %%xmm14, %%xmm" i "\n"
#define MFU_MUL_XMM_PD(i) "mulpd %%xmm15, %%xmm" i "\n"
#define MFU_ADD_XMM_PD(i) "addpd %%xmm14, %%xmm" i "\n"
#define MFU_ZERO "vzeroupper\n"

MFU_BURST(avx512_fp32, zmm, MFU_ZMM_PS, float, MFU_FMA_ZMM_PS, MFU_FMA_ZMM_PS, MFU_ZERO, 32)
MFU_BURST(avx512_fp64, zmm, MFU_ZMM_PD, double, MFU_FMA_ZMM_PD, MFU_FMA_ZMM_PD, MFU_ZERO, 16)
MFU_BURST(fma_fp32, ymm, MFU_YMM_PS, float, MFU_FMA_YMM_PS, MFU_FMA_YMM_PS, MFU_ZERO, 16)
MFU_BURST(fma_fp64, ymm, MFU_YMM_PD, double, MFU_FMA_YMM_PD, MFU_FMA_YMM_PD, MFU_ZERO, 8)
// Without FMA, a multiply pipe and an add pipe work in parallel, each on half of the accumulators.
// Multiplied values shrink by a millionth per step and are far from denormal at the end of a burst.
MFU_BURST(avx_fp32, ymm, MFU_YMM_PS, float, MFU_MUL_YMM_PS, MFU_ADD_YMM_PS, MFU_ZERO, 8)
MFU_BURST(avx_fp64, ymm, MFU_YMM_PD, double, MFU_MUL_YMM_PD, MFU_ADD_YMM_PD, MFU_ZERO, 4)
MFU_BURST(sse2_fp32, xmm, MFU_XMM_PS, float, MFU_MUL_XMM_PS, MFU_ADD_XMM_PS, "", 4)
MFU_BURST(sse2_fp64, xmm, MFU_XMM_PD, double, MFU_MUL_XMM_PD, MFU_ADD_XMM_PD, "", 2)

#elif defined(__aarch64__)

// A64FX takes nine cycles for each step of two pipes, Neoverse V1 and V2 four for each of four.
constexpr int kAccumulators = 24;
#define MFU_TWENTY_FOUR(step)                                                             \
  MFU_TWELVE(step, step)                                                                  \
  step("12") step("13") step("14") step("15") step("16") step("17") step("18") step("19") \
      step("20") step("21") step("22") step("23")

#define MFU_BURST(name, pair, load, from, step, flop_a_step)                                       \
  double name(std::uint64_t rounds) {                                                              \
    static const pair kBy = 1e-3f;                                                                 \
    std::uint64_t left = rounds;                                                                   \
    asm volatile(load MFU_TWENTY_FOUR(from) "1:\n" MFU_TWENTY_FOUR(                                \
                     step) "subs %[left], %[left], #1\nb.ne 1b\n"                                  \
                 : [left] "+r"(left)                                                               \
                 : [by] "r"(&kBy), "m"(kBy)                                                        \
                 : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", \
                   "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",    \
                   "v23", "v30", "v31");                                                           \
    return static_cast<double>(rounds) * kAccumulators * (flop_a_step);                            \
  }
#define MFU_LOAD_NEON(lanes) "ld1r {v30." lanes "}, [%[by]]\nmov v31.16b, v30.16b\n"
#define MFU_FROM_NEON(i) "mov v" i ".16b, v30.16b\n"
#define MFU_NEON_PS(i) "fmla v" i ".4s, v30.4s, v31.4s\n"
#define MFU_NEON_PD(i) "fmla v" i ".2d, v30.2d, v31.2d\n"
MFU_BURST(neon_fp32, float, MFU_LOAD_NEON("4s"), MFU_FROM_NEON, MFU_NEON_PS, 8)
MFU_BURST(neon_fp64, double, MFU_LOAD_NEON("2d"), MFU_FROM_NEON, MFU_NEON_PD, 4)

std::uint64_t sve_bytes() {
  std::uint64_t bytes = 0;
  asm(".arch_extension sve\nrdvl %0, #1" : "=r"(bytes));
  return bytes;
}
// The code that is compiled here uses no SVE, so the predicate and the upper parts of the registers
// are free.
#define MFU_LOAD_SVE(lanes, load)                                 \
  ".arch_extension sve\nptrue p0." lanes "\n" load " {z30." lanes \
  "}, p0/z, [%[by]]\n"                                            \
  "mov z31.d, z30.d\n"
#define MFU_FROM_SVE(i) "mov z" i ".d, z30.d\n"
#define MFU_SVE_PS(i) "fmla z" i ".s, p0/m, z30.s, z31.s\n"
#define MFU_SVE_PD(i) "fmla z" i ".d, p0/m, z30.d, z31.d\n"
MFU_BURST(sve_fp32, float, MFU_LOAD_SVE("s", "ld1rw"), MFU_FROM_SVE, MFU_SVE_PS,
          static_cast<double>(sve_bytes()) / 2)
MFU_BURST(sve_fp64, double, MFU_LOAD_SVE("d", "ld1rd"), MFU_FROM_SVE, MFU_SVE_PD,
          static_cast<double>(sve_bytes()) / 4)

std::string sve_name(const CpuIdentity& identity) {
  return "SVE of " + std::to_string(8 * identity.sve_bytes) + " bits";
}

#endif

double burst_seconds(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Goes on until the time is up and there were enough runs for an undisturbed one. It gives up if
// one run takes as long as many should (an emulated machine).
bool goes_on(std::size_t runs, double elapsed_s, double seconds) {
  return runs == 0 || elapsed_s < seconds ||
         (runs < kFewestRuns && elapsed_s < kPatience * seconds);
}

}  // namespace

BurstKernel fp32_kernel(const CpuIdentity& identity) {
#if defined(__x86_64__)
  if (identity.avx512f) return {"AVX-512", 32, avx512_fp32};
  if (identity.avx2 && identity.fma) return {"AVX2 and FMA", 16, fma_fp32};
  if (identity.avx) return {"AVX", 8, avx_fp32};
  if (identity.sse2) return {"SSE2", 4, sse2_fp32};
#elif defined(__aarch64__)
  if (identity.sve_bytes > 16) return {sve_name(identity), identity.sve_bytes / 2.0, sve_fp32};
  if (identity.neon) return {"NEON", 8, neon_fp32};
#endif
  (void)identity;
  return {"", 0, nullptr};
}

BurstKernel fp64_kernel(const CpuIdentity& identity) {
#if defined(__x86_64__)
  if (identity.avx512f) return {"AVX-512", 16, avx512_fp64};
  if (identity.avx2 && identity.fma) return {"AVX2 and FMA", 8, fma_fp64};
  if (identity.avx) return {"AVX", 4, avx_fp64};
  if (identity.sse2) return {"SSE2", 2, sse2_fp64};
#elif defined(__aarch64__)
  if (identity.sve_bytes > 16) return {sve_name(identity), identity.sve_bytes / 4.0, sve_fp64};
  if (identity.neon) return {"NEON", 4, neon_fp64};
#endif
  (void)identity;
  return {"", 0, nullptr};
}

// Adds a register, not a constant, because some cores combine additions of constants.
void addition_chain(std::uint64_t additions) {
  std::uint64_t sum = 0;
  std::uint64_t one = 1;
  for (std::uint64_t i = 0; i < additions / 16; ++i) {
#if defined(__x86_64__)
    asm volatile(".rept 16\n add %1, %0\n .endr" : "+r"(sum) : "r"(one));
#elif defined(__aarch64__)
    asm volatile(".rept 16\n add %0, %0, %1\n .endr" : "+r"(sum) : "r"(one));
#else
    for (int step = 0; step < 16; ++step) asm volatile("" : "+r"(sum) : "r"(one));
#endif
  }
}

std::vector<double> on_every_core(const CpuShare& share,
                                  const std::function<double(std::size_t core)>& work) {
  std::vector<double> results(share.core_units.size());
  std::vector<std::thread> threads;
  for (std::size_t core = 0; core < results.size(); ++core) {
    threads.emplace_back([&, core] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(share.core_units[core] % CPU_SETSIZE, &set);
      pthread_setaffinity_np(pthread_self(), sizeof set, &set);
      results[core] = work(core);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

double best_clock_hz(double seconds) {
  constexpr std::uint64_t kAdditions = 160'000;  // about 50 µs
  auto start = std::chrono::steady_clock::now();
  double best = 0;
  for (std::size_t runs = 0; goes_on(runs, burst_seconds(start), seconds); ++runs) {
    auto begun = std::chrono::steady_clock::now();
    addition_chain(kAdditions);
    best = std::max(best, kAdditions / burst_seconds(begun));
  }
  return best;
}

std::vector<double> burst_rates(const BurstKernel& kernel, double seconds) {
  constexpr std::uint64_t kRounds = 100'000;  // about 0.2 ms: six cycles a round with two pipes
  std::vector<double> rates;
  auto start = std::chrono::steady_clock::now();
  while (goes_on(rates.size(), burst_seconds(start), seconds)) {
    auto begun = std::chrono::steady_clock::now();
    double flop = kernel.run(kRounds);
    rates.push_back(flop / burst_seconds(begun));
  }
  return rates;
}

}  // namespace mfu
