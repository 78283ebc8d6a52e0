// Raw samples of hardware counters. A counter may be narrow, may take turns with others, or may be
// missing. counted_between() computes FLOPs from two samples, or says why it cannot.
//
//   mfu::CounterSampler sampler(source);
//   …  // some steps
//   mfu::Result<mfu::FlopRate> rate = sampler.rate();  // since the last time it was asked
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mfu/result.h"
#include "mfu/units.h"

namespace mfu {

// The value of one event as the kernel or the driver gives it, since the event was opened.
struct CounterValue {
  std::string event;  // "FP_ARITH_INST_RETIRED:256B_PACKED_SINGLE"
  std::uint64_t flop_per_count = 1;
  std::uint64_t value = 0;
  std::uint32_t width_bits = 64;  // the value wraps around at 2^width
  // How long the event was wanted, and how long it really counted. The second is less if events
  // take turns. None if the source does not say.
  std::optional<std::chrono::nanoseconds> time_enabled{}, time_running{};
};

struct CounterSample {
  std::chrono::nanoseconds at{};
  std::vector<CounterValue> values;  // an event that could not be read is left out
};

class CounterSource {
 public:
  virtual ~CounterSource() = default;
  // "perf_event: FP_ARITH_INST_RETIRED".
  virtual std::string name() const = 0;
  virtual Result<CounterSample> sample() = 0;
};

// The FLOPs between two samples of one source. For each event: the difference modulo its width,
// times enabled / running in between, times the FLOPs of the event. Fails with `unsupported` if an
// event is missing in one of the samples, never ran in between, or ran less than 5% of the time,
// which is too little to scale.
Result<FlopCount> counted_between(const CounterSample& before, const CounterSample& after);

// Counts the floating-point events of this process's threads, and of threads that they start later,
// by perf_event_open. Fails with `unsupported` and the reason if the processor or the system has
// none. Values are sums over threads. If events took turns, they are scaled by the time for which
// all threads ran.
Result<std::shared_ptr<CounterSource>> open_cpu_counters();

// Asks a source again and again. The first answer is `not_found`, because a rate needs two samples.
class CounterSampler {
 public:
  explicit CounterSampler(std::shared_ptr<CounterSource> source) : source_(std::move(source)) {}
  Result<FlopRate> rate();

 private:
  std::shared_ptr<CounterSource> source_;
  std::optional<CounterSample> last_;
};

}  // namespace mfu
