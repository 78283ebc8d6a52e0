// STREAM's triad, a[i] = b[i] + s·c[i]. Its stores bypass the cache, so memory moves exactly 24
// bytes per element (J. McCalpin, STREAM, 1995).
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "hardware/cpu.h"
#include "hardware/gemm.h"
#include "hardware/triad.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mfu {

namespace {

void triad(double* a, const double* b, const double* c, std::size_t count) {
  constexpr double kScale = 0.4;
#if defined(__x86_64__)
  const __m128d scale = _mm_set1_pd(kScale);
  for (std::size_t i = 0; i < count; i += 2) {
    _mm_stream_pd(a + i, _mm_add_pd(_mm_load_pd(b + i), _mm_mul_pd(scale, _mm_load_pd(c + i))));
  }
  _mm_sfence();
#else
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] + kScale * c[i];
#endif
}

struct Strip {
  MatrixStorage a, b, c;
  explicit Strip(std::size_t count) : a(count * 8), b(count * 8), c(count * 8) {
    for (const MatrixStorage* array : {&a, &b, &c}) {
      std::fill_n(static_cast<double*>(array->data()), count, 1.0);
    }
  }
};

}  // namespace

std::vector<double> triad_byte_rates(const CpuShare& share, double seconds) {
  // STREAM's rule: four times the last-level caches, but at least 32 MB and at most 1 GB for the
  // three arrays together.
  std::size_t total = std::clamp<std::size_t>(share.last_cache_bytes * 4, 32u << 20, 1u << 30);
  std::size_t cores = share.core_units.size();
  std::size_t count = std::max<std::size_t>(1024, total / 24 / cores / 2 * 2);
  std::vector<std::unique_ptr<Strip>> strips(cores);
  on_every_core(share, [&](std::size_t core) {
    strips[core] = std::make_unique<Strip>(count);  // touched first by the core that uses it
    return 0.0;
  });
  std::vector<double> rates;
  auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double> spent{};
  do {
    auto begun = std::chrono::steady_clock::now();
    on_every_core(share, [&](std::size_t core) {
      Strip& strip = *strips[core];
      triad(static_cast<double*>(strip.a.data()), static_cast<double*>(strip.b.data()),
            static_cast<double*>(strip.c.data()), count);
      return 0.0;
    });
    auto now = std::chrono::steady_clock::now();
    rates.push_back(static_cast<double>(count * cores * 24) /
                    std::chrono::duration<double>(now - begun).count());
    spent = now - start;
  } while (spent.count() < seconds || rates.size() < 3);
  return rates;
}

}  // namespace mfu
