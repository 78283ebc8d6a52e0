#include "mfu/machine.h"

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
  return values[static_cast<std::size_t>(
      std::lround(quantile * static_cast<double>(values.size() - 1)))];
}

// The rate of the whole machine: the best runs of all cores, added up, because no core waits for
// another. A core that was disturbed all the time counts as the best core of its kind. An
// efficiency core is slower by more than that and keeps its own rate.
double machine_rate(std::vector<double> best_of_core, const CpuShare& share) {
  double most = *std::max_element(best_of_core.begin(), best_of_core.end());
  for (double& each : best_of_core) each = each > 0.8 * most ? most : each;
  double sum = std::accumulate(best_of_core.begin(), best_of_core.end(), 0.0);
  return sum * share.cores() / static_cast<double>(best_of_core.size());
}

// The rates of all runs, core by core.
struct CoreRuns {
  std::vector<double> best;
  std::vector<std::vector<double>> rates;

  void add(const std::vector<std::vector<double>>& of_cores) {
    best.resize(of_cores.size());
    rates.resize(of_cores.size());
    for (std::size_t core = 0; core < of_cores.size(); ++core) {
      for (double rate : of_cores[core]) {
        best[core] = std::max(best[core], rate);
        rates[core].push_back(rate);
      }
    }
  }
};

// Both the best and the usual rate are sums over the cores, so the best is never below the usual
// one.
void summarise(Measured& result, const CoreRuns& runs, const CpuShare& share) {
  double scale = share.cores() / static_cast<double>(runs.rates.size());
  double median = 0;
  double low = 0;
  double high = 0;
  for (const std::vector<double>& core : runs.rates) {
    median += at_quantile(core, 0.5) * scale;
    low += at_quantile(core, 0.1) * scale;
    high += at_quantile(core, 0.9) * scale;
    result.runs += core.size();
  }
  result.rate = FlopRate{machine_rate(runs.best, share)};
  result.median = FlopRate{median};
  result.spread = Fraction{(high - low) / median};
}

Measured measure_bursts(Precision precision, const BurstKernel& kernel, const CpuShare& share,
                        double seconds) {
  Measured result;
  result.precision = precision;
  result.method = fmt::format("{} bursts in registers", kernel.isa);
  std::vector<std::vector<double>> rates(share.core_units.size());
  on_every_core(share, [&](std::size_t core) {
    rates[core] = burst_rates(kernel, seconds);
    return 0.0;
  });
  CoreRuns runs;
  runs.add(rates);
  summarise(result, runs, share);
  result.shape = fmt::format("{} cores", share.core_units.size());
  return result;
}

// Squares that fit the caches in different ways, and the long shapes of a transformer's
// projections. Each takes a core one to thirty milliseconds, so that some runs are not disturbed by
// other work.
const std::vector<GemmShape> kShapes = {{256, 256, 256},   {384, 384, 384},    {512, 512, 512},
                                        {768, 768, 768},   {1024, 1024, 1024}, {512, 1024, 256},
                                        {256, 1024, 1024}, {1024, 256, 512}};

using OpenGemm = Result<std::unique_ptr<Gemm>> (*)(Precision precision, int threads);

struct Plan {
  Precision precision;
  OpenGemm open;
};

// Runs one multiply per core, each with its own matrices, for that long.
Result<std::vector<std::vector<double>>> run_on_cores(const Plan& plan, const GemmShape& shape,
                                                      const CpuShare& share, double seconds) {
  std::vector<std::vector<double>> rates(share.core_units.size());
  std::vector<std::string> problems(share.core_units.size());
  on_every_core(share, [&](std::size_t core) {
    Result<std::unique_ptr<Gemm>> gemm = plan.open(plan.precision, 1);
    Result<void> ready = gemm.has_value() ? gemm.value()->prepare(shape) : Failure{gemm.error()};
    if (!ready.has_value()) {
      problems[core] = ready.error().message;
      return 0.0;
    }
    auto start = SteadyClock::now();
    gemm.value()->run();  // a warm-up; if it takes all the time, it is the measurement
    double first_s = seconds_since(start);
    if (first_s >= seconds) {
      rates[core].push_back(shape.flop() / first_s);
      return 0.0;
    }
    do {
      auto begun = SteadyClock::now();
      gemm.value()->run();
      rates[core].push_back(shape.flop() / seconds_since(begun));
    } while (seconds_since(start) < first_s + seconds);
    return 0.0;
  });
  for (const std::string& problem : problems) {
    if (!problem.empty()) return fail(ErrorCode::unsupported, problem);
  }
  return rates;
}

// Runs each shape once, then the three best in turn until the time is up. The best of many short
// runs is the one that nothing disturbed.
Measured search_shapes(const Plan& plan, const CpuShare& share, double seconds) {
  struct Tried {
    GemmShape shape;
    CoreRuns runs;
  };
  Measured result;
  result.precision = plan.precision;
  Result<std::unique_ptr<Gemm>> gemm = plan.open(plan.precision, 1);
  result.method = gemm.has_value() ? gemm.value()->method() + ", one per core" : "matrix multiply";
  std::vector<Tried> tried;
  auto better = [&](const Tried& a, const Tried& b) {
    return machine_rate(a.runs.best, share) > machine_rate(b.runs.best, share);
  };
  auto start = SteadyClock::now();
  double turn = seconds / 3 / static_cast<double>(kShapes.size());
  // The smallest shape comes first, so that even a very slow machine has one result.
  for (std::size_t round = 0; round == 0 || seconds_since(start) < seconds; ++round) {
    if (round < kShapes.size()) tried.push_back({kShapes[round], {}});
    Tried& next = round < kShapes.size() ? tried.back() : tried[round % 3];
    auto rates = run_on_cores(plan, next.shape, share, turn);
    if (!rates.has_value()) {
      result.why_not = rates.error().message;
      return result;
    }
    next.runs.add(*rates);
    if (round + 1 >= kShapes.size()) std::sort(tried.begin(), tried.end(), better);
  }
  std::sort(tried.begin(), tried.end(), better);
  summarise(result, tried[0].runs, share);
  const GemmShape& won = tried[0].shape;
  result.shape = fmt::format("m={} n={} k={}", won.m, won.n, won.k);
  return result;
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
    ceiling.measured.push_back(search_shapes(plan, share, share_s));
  }
  // The clock of the best burst, computed with the FLOP per cycle that detection found.
  if (cpu.device && cpu.clock_hz && !ceiling.bursts.empty()) {
    const Measured& burst = ceiling.bursts.back();
    const Peak* peak = cpu.device->peak(burst.precision);
    double clock_hz = *cpu.clock_hz * burst.rate->per_s / peak->rate.per_s;
    for (Measured& one : ceiling.bursts) one.clock_hz = clock_hz;
    for (Measured& one : ceiling.measured) one.clock_hz = clock_hz;
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
    // The same product with the clock that the bursts showed. FLOP per cycle stay as detection
    // found them.
    CpuClock clock;
    BurstKernel kernel = fp32_kernel(identity);
    clock.cores = cpu_share().cores();
    double per_cycle = now->rate.per_s / (*cpu.clock_hz * clock.cores);
    clock.pipes =
        std::max(1, static_cast<int>(std::lround(per_cycle / kernel.flop_per_pipe_cycle)));
    clock.all_cores_hz = burst.rate->per_s / (kernel.flop_per_pipe_cycle * clock.pipes);
    clock.how = "in FMA bursts";
    Device measured = cpu;
    set_cpu_peaks(measured, identity, clock);
    measured.clock_hz = clock.all_cores_hz / clock.cores;
    if (ceiling.bandwidth) measured.bandwidth = ceiling.bandwidth;
    std::erase_if(measured.notes,
                  [](const Note& note) { return note.code == "bandwidth_not_measured"; });
    return measured;
  }
  return cpu;
}

}  // namespace mfu
