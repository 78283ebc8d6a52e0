#include "hardware/samples.h"

#include <cmath>

#include <fmt/format.h>

namespace mfu {

namespace {

const CounterValue* find(const CounterSample& sample, const std::string& event) {
  for (const CounterValue& value : sample.values) {
    if (value.event == event) return &value;
  }
  return nullptr;
}

// A counter that takes turns with others counts only for running / enabled of the time. So its
// value is scaled up.
Result<double> scale_between(const CounterValue& before, const CounterValue& after) {
  if (!before.time_enabled || !before.time_running || !after.time_enabled || !after.time_running) {
    return 1.0;
  }
  auto enabled = (*after.time_enabled - *before.time_enabled).count();
  auto running = (*after.time_running - *before.time_running).count();
  if (enabled < 0 || running < 0) {
    return fail(
        ErrorCode::unsupported,
        fmt::format("the times of {} went back: the counter was opened again", after.event));
  }
  if (enabled == 0) return 1.0;
  double share = static_cast<double>(running) / static_cast<double>(enabled);
  if (share < 0.05) {
    return fail(ErrorCode::unsupported,
                fmt::format("{} counted for {:.1f}% of the time only: fewer events at a time would "
                            "mend it",
                            after.event, share * 100));
  }
  return share > 1 ? 1.0 : 1 / share;
}

}  // namespace

Result<FlopCount> counted_between(const CounterSample& before, const CounterSample& after) {
  if (after.values.empty()) return fail(ErrorCode::unsupported, "no counter could be read");
  for (const CounterValue& value : before.values) {
    if (find(after, value.event) == nullptr) {
      return fail(ErrorCode::unsupported, fmt::format("{} is no longer there", value.event));
    }
  }
  double flop = 0;
  for (const CounterValue& now : after.values) {
    const CounterValue* then = find(before, now.event);
    if (then == nullptr) {
      return fail(ErrorCode::unsupported, fmt::format("{} was not there before", now.event));
    }
    std::uint64_t mask = now.width_bits >= 64 ? ~0ull : (1ull << now.width_bits) - 1;
    std::uint64_t counts = (now.value - then->value) & mask;
    double scale = MFU_TRY(scale_between(*then, now));
    flop += static_cast<double>(counts) * scale * static_cast<double>(now.flop_per_count);
  }
  return FlopCount::from_wide(static_cast<Uint128>(std::round(flop)));
}

Result<FlopRate> CounterSampler::rate() {
  if (source_ == nullptr) return fail(ErrorCode::not_found, "no hardware counters were given");
  Result<CounterSample> sample = source_->sample();
  if (!sample.has_value()) {
    last_.reset();
    return Failure{sample.error()};
  }
  std::optional<CounterSample> before = std::move(last_);
  last_ = *sample;
  if (!before) return fail(ErrorCode::not_found, "the first sample of the hardware counters");
  if (sample->at <= before->at) {
    return fail(ErrorCode::unsupported, "no time between two samples of the hardware counters");
  }
  return MFU_TRY(counted_between(*before, *sample)) / (sample->at - before->at);
}

}  // namespace mfu
