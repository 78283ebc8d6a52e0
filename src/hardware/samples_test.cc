#include "hardware/samples.h"

#include <gtest/gtest.h>

#include <deque>

namespace mfu {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

CounterSample sample(nanoseconds at, std::uint64_t value) {
  return {.at = at, .values = {{.event = "fp", .flop_per_count = 8, .value = value}}};
}

TEST(Counters, count_what_was_added_times_its_flop) {
  EXPECT_EQ(*counted_between(sample(nanoseconds(0), 100), sample(nanoseconds(1), 350)),
            FlopCount(250 * 8));
}

TEST(Counters, wrap_around) {
  CounterSample before = sample(nanoseconds(0), (1ull << 48) - 10);
  CounterSample after = sample(nanoseconds(1), 5);
  before.values[0].width_bits = after.values[0].width_bits = 48;
  EXPECT_EQ(*counted_between(before, after), FlopCount(15 * 8));
  before.values[0] = {.event = "fp", .value = ~0ull - 1};
  after.values[0] = {.event = "fp", .value = 3};
  EXPECT_EQ(*counted_between(before, after), FlopCount(5));
}

TEST(Counters, that_took_turns_are_scaled_by_the_time_they_ran_in_between) {
  CounterSample before = sample(nanoseconds(0), 0), after = sample(nanoseconds(1), 1000);
  before.values[0].time_enabled = milliseconds(100);
  before.values[0].time_running = milliseconds(100);
  after.values[0].time_enabled = milliseconds(200);
  after.values[0].time_running = milliseconds(125);  // a quarter of the last 100 ms
  EXPECT_EQ(*counted_between(before, after), FlopCount(4 * 1000 * 8));
}

TEST(Counters, a_part_is_no_whole) {
  CounterSample before = sample(nanoseconds(0), 0), after = sample(nanoseconds(1), 1000);
  before.values[0].time_enabled = before.values[0].time_running = milliseconds(0);
  after.values[0].time_enabled = milliseconds(100);
  after.values[0].time_running = milliseconds(1);
  EXPECT_EQ(counted_between(before, after).error().code, ErrorCode::unsupported);
  after.values[0].time_enabled = milliseconds(-5);  // opened again
  EXPECT_FALSE(counted_between(before, after).has_value());
  CounterSample more = sample(nanoseconds(1), 5);
  more.values.push_back({.event = "fp512", .value = 1});
  EXPECT_FALSE(counted_between(sample(nanoseconds(0), 0), more).has_value());
  EXPECT_FALSE(counted_between(more, sample(nanoseconds(2), 9)).has_value());
  EXPECT_FALSE(counted_between(sample(nanoseconds(0), 0), {}).has_value());
}

class FakeSource : public CounterSource {
 public:
  std::string name() const override { return "fake"; }
  Result<CounterSample> sample() override {
    if (samples.empty()) return fail(ErrorCode::io, "the driver is gone");
    CounterSample next = samples.front();
    samples.pop_front();
    return next;
  }
  std::deque<CounterSample> samples;
};

TEST(CounterSampler, needs_two_samples_and_starts_anew_after_a_failure) {
  auto source = std::make_shared<FakeSource>();
  source->samples = {sample(milliseconds(0), 0), sample(milliseconds(500), 1000)};
  CounterSampler sampler(source);
  EXPECT_EQ(sampler.rate().error().code, ErrorCode::not_found);
  // 1000 × 8 FLOP in half a second.
  EXPECT_DOUBLE_EQ(sampler.rate()->per_s, 16000);
  EXPECT_EQ(sampler.rate().error().code, ErrorCode::io);
  source->samples = {sample(milliseconds(900), 5000), sample(milliseconds(900), 5001)};
  EXPECT_EQ(sampler.rate().error().code, ErrorCode::not_found);
  EXPECT_EQ(sampler.rate().error().code, ErrorCode::unsupported);  // no time in between
}

TEST(PerfCounters, open_or_say_why_not) {
  Result<std::shared_ptr<CounterSource>> counters = open_cpu_counters();
  if (!counters.has_value()) {
    EXPECT_EQ(counters.error().code, ErrorCode::unsupported);
    EXPECT_GT(counters.error().message.size(), 20u);
    return;
  }
  Result<CounterSample> sample = (*counters)->sample();
  ASSERT_TRUE(sample.has_value()) << sample.error().message;
  EXPECT_FALSE(sample->values.empty());
}

}  // namespace
}  // namespace mfu
