// Fused multiply-adds in registers, nothing else: what the processor's pipes can do. Each kernel
// keeps more independent accumulators than latency × pipes asks for (5 cycles × 2 pipes on the
// processors we know).
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "hardware/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace mfu {

namespace {

constexpr int kAccumulators = 12;

// Tells the compiler that the value is used, so that the work is done.
template <typename T>
void keep(T& value) {
#if defined(__x86_64__)
  asm volatile("" : "+x"(value));
#elif defined(__aarch64__)
  asm volatile("" : "+w"(value));
#else
  asm volatile("" : "+m"(value));
#endif
}

// One kernel: `rounds` times a step on every accumulator. STEP works on `sum` with `by` and `plus`.
#define MFU_BURST(name, target_text, Vector, fill, step, flop_a_step)       \
  __attribute__((target(target_text))) double name(std::uint64_t rounds) {  \
    Vector by = fill(0.999999);                                             \
    Vector plus = fill(1e-6);                                               \
    Vector sums[kAccumulators];                                             \
    for (int i = 0; i < kAccumulators; ++i) sums[i] = fill(0.5 + 0.01 * i); \
    for (std::uint64_t round = 0; round < rounds; ++round) {                \
      _Pragma("GCC unroll 12") for (int i = 0; i < kAccumulators; ++i) {    \
        sums[i] = step(sums[i]);                                            \
      }                                                                     \
      _Pragma("GCC unroll 12") for (int i = 0; i < kAccumulators; ++i) {    \
        keep(sums[i]);                                                      \
      }                                                                     \
    }                                                                       \
    keep(by);                                                               \
    keep(plus);                                                             \
    return static_cast<double>(rounds) * kAccumulators * (flop_a_step);     \
  }

#if defined(__x86_64__)
#define MFU_FILL_F(x) _mm512_set1_ps(static_cast<float>(x))
#define MFU_STEP_F(sum) _mm512_fmadd_ps(sum, by, plus)
MFU_BURST(avx512_fp32, "avx512f", __m512, MFU_FILL_F, MFU_STEP_F, 32)
#define MFU_STEP_D(sum) _mm512_fmadd_pd(sum, by, plus)
MFU_BURST(avx512_fp64, "avx512f", __m512d, _mm512_set1_pd, MFU_STEP_D, 16)
#undef MFU_FILL_F
#undef MFU_STEP_F
#undef MFU_STEP_D
#define MFU_FILL_F(x) _mm256_set1_ps(static_cast<float>(x))
#define MFU_STEP_F(sum) _mm256_fmadd_ps(sum, by, plus)
MFU_BURST(fma_fp32, "avx2,fma", __m256, MFU_FILL_F, MFU_STEP_F, 16)
#define MFU_STEP_D(sum) _mm256_fmadd_pd(sum, by, plus)
MFU_BURST(fma_fp64, "avx2,fma", __m256d, _mm256_set1_pd, MFU_STEP_D, 8)
#undef MFU_STEP_F
#undef MFU_STEP_D
// Without FMA a multiply pipe and an add pipe run side by side: half the accumulators do each.
#define MFU_STEP_F(sum) (i % 2 == 0 ? _mm256_mul_ps(sum, by) : _mm256_add_ps(sum, plus))
MFU_BURST(avx_fp32, "avx", __m256, MFU_FILL_F, MFU_STEP_F, 8)
#define MFU_STEP_D(sum) (i % 2 == 0 ? _mm256_mul_pd(sum, by) : _mm256_add_pd(sum, plus))
MFU_BURST(avx_fp64, "avx", __m256d, _mm256_set1_pd, MFU_STEP_D, 4)
#undef MFU_FILL_F
#undef MFU_STEP_F
#undef MFU_STEP_D
#define MFU_FILL_F(x) _mm_set1_ps(static_cast<float>(x))
#define MFU_STEP_F(sum) (i % 2 == 0 ? _mm_mul_ps(sum, by) : _mm_add_ps(sum, plus))
MFU_BURST(sse2_fp32, "sse2", __m128, MFU_FILL_F, MFU_STEP_F, 4)
#define MFU_STEP_D(sum) (i % 2 == 0 ? _mm_mul_pd(sum, by) : _mm_add_pd(sum, plus))
MFU_BURST(sse2_fp64, "sse2", __m128d, _mm_set1_pd, MFU_STEP_D, 2)
#elif defined(__aarch64__)
#define MFU_FILL_F(x) vdupq_n_f32(static_cast<float>(x))
#define MFU_STEP_F(sum) vfmaq_f32(plus, sum, by)
MFU_BURST(neon_fp32, "arch=armv8-a", float32x4_t, MFU_FILL_F, MFU_STEP_F, 8)
#define MFU_STEP_D(sum) vfmaq_f64(plus, sum, by)
MFU_BURST(neon_fp64, "arch=armv8-a", float64x2_t, vdupq_n_f64, MFU_STEP_D, 4)
#endif

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

BurstKernel fp32_kernel(const CpuIdentity& identity) {
#if defined(__x86_64__)
  if (identity.avx512f) return {"AVX-512", 32, avx512_fp32};
  if (identity.avx2 && identity.fma) return {"AVX2 and FMA", 16, fma_fp32};
  if (identity.avx) return {"AVX", 8, avx_fp32};
  if (identity.sse2) return {"SSE2", 4, sse2_fp32};
#elif defined(__aarch64__)
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
  if (identity.neon) return {"NEON", 4, neon_fp64};
#endif
  (void)identity;
  return {"", 0, nullptr};
}

// A register added, not a constant: some cores fold additions of constants away.
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
  do {
    auto begun = std::chrono::steady_clock::now();
    addition_chain(kAdditions);
    best = std::max(best, kAdditions / seconds_since(begun));
  } while (seconds_since(start) < seconds);
  return best;
}

std::vector<double> burst_rates(const BurstKernel& kernel, double seconds) {
  constexpr std::uint64_t kRounds = 100'000;  // about 0.2 ms: six cycles a round with two pipes
  std::vector<double> rates;
  auto start = std::chrono::steady_clock::now();
  do {
    auto begun = std::chrono::steady_clock::now();
    double flop = kernel.run(kRounds);
    rates.push_back(flop / seconds_since(begun));
  } while (seconds_since(start) < seconds);
  return rates;
}

}  // namespace mfu
