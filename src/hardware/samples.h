// Hardware counters as they are read: raw, of a limited width, perhaps multiplexed, perhaps not all
// there. counted_between() makes FLOPs of two samples, or says why it cannot.
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

// One event as the kernel or the driver gives it, running since it was opened.
struct CounterValue {
  std::string event;  // "FP_ARITH_INST_RETIRED:256B_PACKED_SINGLE"
  std::uint64_t flop_per_count = 1;
  std::uint64_t value = 0;
  std::uint32_t width_bits = 64;  // it wraps around at 2^width
  // While it was wanted, and while it really counted: less where events take turns. None: the
  // source does not say.
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

// FLOPs between two samples of one source: each event's difference modulo its width, times
// enabled / running of the interval, times its FLOPs. `unsupported` where an event is missing in
// one of them, never ran in between, or ran too little to scale (under 5%): a part is no whole.
Result<FlopCount> counted_between(const CounterSample& before, const CounterSample& after);

// The floating-point events of this process's threads, and of those they begin later, by
// perf_event_open; `unsupported` with the reason where the processor or the system has none. Sums
// over threads: what took turns is scaled by the time all of them ran.
Result<std::shared_ptr<CounterSource>> open_cpu_counters();

// Asks a source again and again. The first answer is `not_found`: a rate needs two samples.
class CounterSampler {
 public:
  explicit CounterSampler(std::shared_ptr<CounterSource> source) : source_(std::move(source)) {}
  Result<FlopRate> rate();

 private:
  std::shared_ptr<CounterSource> source_;
  std::optional<CounterSample> last_;
};

}  // namespace mfu
