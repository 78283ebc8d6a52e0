#include "mfu/ceiling.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <numeric>

#include "base/text.h"
#include "hardware/ceiling_times.h"
#include "hardware/cpu.h"
#include "hardware/cpu_peak.h"
#include "hardware/gemm.h"
#include "hardware/triad.h"

namespace mfu {

namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

double at_quantile(std::vector<double> values, double quantile) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(quantile * static_cast<double>(values.size() - 1) + 0.5)];
}

// Best, median and spread of the rates of one kind of run.
void summarise(Measured& result, const std::vector<double>& rates) {
  double median = at_quantile(rates, 0.5);
  result.rate = FlopRate{at_quantile(rates, 1)};
  result.median = FlopRate{median};
  result.spread = Fraction{(at_quantile(rates, 0.9) - at_quantile(rates, 0.1)) / median};
  result.runs = rates.size();
}

Measured measure_bursts(Precision precision, const BurstKernel& kernel, const CpuShare& share,
                        double seconds) {
  Measured result;
  result.precision = precision;
  result.method = fmt::format("{} bursts in registers", kernel.isa);
  std::vector<std::vector<double>> rates(share.core_units.size());
  std::vector<double> best = on_every_core(share, [&](std::size_t core) {
    rates[core] = burst_rates(kernel, seconds);
    return at_quantile(rates[core], 1);
  });
  // Each core's own best, added up: the bursts run side by side, and no core waits for another. A
  // core that was disturbed throughout counts as the best of its likes.
  double most = *std::max_element(best.begin(), best.end());
  for (double& each : best) each = each > 0.8 * most ? most : each;
  double scale = share.cores() / static_cast<double>(best.size());
  summarise(result, rates[0]);
  result.rate = FlopRate{std::accumulate(best.begin(), best.end(), 0.0) * scale};
  result.median = FlopRate{result.median->per_s * share.cores()};
  result.shape = fmt::format("{} core{}", share.cores(), share.cores() == 1 ? "" : "s");
  return result;
}

// Squares that fit the caches in different ways, and the long shapes of a transformer's
// projections.
const std::vector<GemmShape> kShapes = {{512, 512, 512},    {768, 768, 768},    {1024, 1024, 1024},
                                        {1152, 1152, 1152}, {1536, 1536, 1536}, {2048, 2048, 2048},
                                        {2048, 512, 2048},  {512, 2048, 1024},  {1024, 1024, 4096}};

// Each shape a few times, then the promising ones until the time is up: the best of many short runs
// is what an undisturbed machine does.
Measured search_shapes(Gemm& gemm, Precision precision, double seconds) {
  struct Tried {
    GemmShape shape;
    std::vector<double> rates;
    double best() const {
      return rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
    }
  };
  Measured result;
  result.precision = precision;
  result.method = gemm.method();
  std::vector<Tried> tried;
  auto run = [&](Tried& candidate, int times) {
    Result<void> ready = gemm.prepare(candidate.shape);
    if (!ready.has_value()) {
      result.why_not = ready.error().message;
      return;
    }
    gemm.run();  // warm
    for (int i = 0; i < times; ++i) {
      auto begun = SteadyClock::now();
      gemm.run();
      candidate.rates.push_back(candidate.shape.flop() / seconds_since(begun));
    }
  };
  auto start = SteadyClock::now();
  for (const GemmShape& shape : kShapes) {
    tried.push_back({shape, {}});
    run(tried.back(), 4);
    if (!result.why_not.empty()) return result;
    if (seconds_since(start) > seconds / 2) break;
  }
  auto better = [](const Tried& a, const Tried& b) { return a.best() > b.best(); };
  std::size_t round = 0;
  while (seconds_since(start) < seconds) {
    std::sort(tried.begin(), tried.end(), better);
    run(tried[round++ % std::min<std::size_t>(3, tried.size())], 12);
  }
  std::sort(tried.begin(), tried.end(), better);
  summarise(result, tried[0].rates);
  const GemmShape& won = tried[0].shape;
  result.shape = fmt::format("m={} n={} k={}", won.m, won.n, won.k);
  return result;
}

struct Plan {
  Precision precision;
  Result<std::unique_ptr<Gemm>> (*open)(Precision precision, int threads);
};

Measured measure_gemm(const Plan& plan, int threads, double seconds) {
  Result<std::unique_ptr<Gemm>> gemm = plan.open(plan.precision, threads);
  if (gemm.has_value()) return search_shapes(*gemm.value(), plan.precision, seconds);
  Measured failed;
  failed.precision = plan.precision;
  failed.method = "matrix multiply";
  failed.why_not = gemm.error().message;
  return failed;
}

bool wanted(const MeasureOptions& options, Precision precision) {
  return options.precisions.empty() ||
         std::find(options.precisions.begin(), options.precisions.end(), precision) !=
             options.precisions.end();
}

}  // namespace

std::string utc_now() {
  std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

Ceiling measure_cpu_ceiling(const FoundDevice& cpu, const MeasureOptions& options,
                            const Progress& progress) {
  Ceiling ceiling;
  ceiling.device = cpu.driver_name;
  ceiling.measured_at = utc_now();
  CpuIdentity identity = cpu_identity();
  CpuShare share = cpu_share();
  int threads = std::max(1, static_cast<int>(std::floor(share.cores())));
  std::vector<Plan> plans;
  for (const Plan& plan :
       {Plan{Precision::fp64, openblas_gemm}, Plan{Precision::fp32, openblas_gemm},
        Plan{Precision::fp32, onednn_gemm}, Plan{Precision::bf16, onednn_gemm},
        Plan{Precision::int8, onednn_gemm}}) {
    if (wanted(options, plan.precision)) plans.push_back(plan);
  }
  double share_s = options.seconds / (static_cast<double>(plans.size()) + 3);
  double done = 0;
  auto report = [&](std::string_view what, double parts) {
    if (progress) progress({done / (static_cast<double>(plans.size()) + 3)}, what);
    done += parts;
  };
  for (auto [precision, kernel] : {std::pair(Precision::fp64, fp64_kernel(identity)),
                                   std::pair(Precision::fp32, fp32_kernel(identity))}) {
    if (kernel.run == nullptr || !wanted(options, precision)) continue;
    report(fmt::format("{} bursts, {}", kernel.isa, name_of(precision)), 1);
    ceiling.bursts.push_back(measure_bursts(precision, kernel, share, share_s));
  }
  for (const Plan& plan : plans) {
    report(fmt::format("matrix multiplies, {}", name_of(plan.precision)), 1);
    ceiling.measured.push_back(measure_gemm(plan, threads, share_s));
  }
  report("memory, triad", 1);
  std::vector<double> rates = triad_byte_rates(share, share_s);
  ceiling.bandwidth = ByteRate{at_quantile(rates, 1)};
  ceiling.bandwidth_method =
      fmt::format("triad, best of {}, 24 bytes an element, stores past the cache", rates.size());
  if (progress) progress({1}, "done");
  return ceiling;
}

Device with_measured_peak(const Device& cpu, const Ceiling& ceiling) {
  CpuIdentity identity = cpu_identity();
  for (const Measured& burst : ceiling.bursts) {
    const Peak* now = cpu.peak(Precision::fp32);
    if (burst.precision != Precision::fp32 || !burst.rate || now == nullptr || !cpu.units ||
        !cpu.clock_hz)
      continue;
    // The same product with the clock that the bursts showed: FLOP a cycle stays what detection
    // found.
    CpuClock clock;
    BurstKernel kernel = fp32_kernel(identity);
    clock.cores = static_cast<double>(*cpu.units);
    double per_cycle = now->rate.per_s / (*cpu.clock_hz * clock.cores);
    clock.pipes =
        std::max(1, static_cast<int>(std::lround(per_cycle / kernel.flop_per_pipe_cycle)));
    clock.all_cores_hz = burst.rate->per_s / (kernel.flop_per_pipe_cycle * clock.pipes);
    clock.how = "in FMA bursts";
    Device measured = cpu;
    set_cpu_peaks(measured, identity, clock);
    measured.clock_hz = clock.all_cores_hz / clock.cores;
    if (ceiling.bandwidth) measured.bandwidth = ceiling.bandwidth;
    std::erase_if(measured.notes, [](const std::string& note) {
      return note.find("--measure") != std::string::npos;
    });
    return measured;
  }
  return cpu;
}

}  // namespace mfu
