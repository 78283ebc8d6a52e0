#include "monitor/feeder.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

struct Behaviour {
  int refuse = 0;  // fails for this many calls from now on
  std::vector<std::uint64_t> written;
  int writes = 0, opens = 0, closes = 0;
  std::chrono::nanoseconds pace{};
};

class MoodySink : public Sink {
 public:
  explicit MoodySink(Behaviour& behaviour) : behaviour_(behaviour) {}
  std::string name() const override { return "moody"; }
  Result<void> open() override {
    ++behaviour_.opens;
    return {};
  }
  Result<void> write(std::span<const StepReport> reports) override {
    ++behaviour_.writes;
    if (behaviour_.refuse > 0) {
      --behaviour_.refuse;
      return fail(ErrorCode::io, "not now");
    }
    for (const StepReport& report : reports) behaviour_.written.push_back(report.step);
    return {};
  }
  Result<void> close() override {
    ++behaviour_.closes;
    return {};
  }
  std::chrono::nanoseconds pace() const override { return behaviour_.pace; }

 private:
  Behaviour& behaviour_;
};

class Feeder : public testing::Test {
 protected:
  SinkFeeder make(std::uint64_t batch) {
    return {std::make_unique<MoodySink>(behaviour_), clock_, batch,
            [this](std::string text) { warnings_.push_back(std::move(text)); }};
  }
  static StepReport report(std::uint64_t step) {
    StepReport made;
    made.step = step;
    return made;
  }
  FakeClock clock_;
  Behaviour behaviour_;
  std::vector<std::string> warnings_;
};

TEST_F(Feeder, tries_again_with_growing_pauses_and_says_so_once) {
  SinkFeeder feeder = make(1);
  behaviour_.refuse = 3;
  feeder.offer(report(1));
  std::vector<int> tried_at;
  for (int second = 0; second < 20; ++second) {
    int before = behaviour_.writes;
    feeder.pump(false);
    if (behaviour_.writes != before) tried_at.push_back(second);
    clock_.advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(tried_at, (std::vector<int>{0, 1, 3, 7}));
  EXPECT_EQ(behaviour_.written, (std::vector<std::uint64_t>{1}));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("moody: not now"), std::string::npos);
}

TEST_F(Feeder, keeps_order_and_bounds_what_it_holds) {
  SinkFeeder feeder = make(1);
  behaviour_.refuse = 1'000'000;
  for (std::uint64_t i = 0; i < SinkFeeder::kMostWaiting + 10; ++i) {
    feeder.offer(report(i));
    feeder.pump(false);
  }
  EXPECT_EQ(feeder.waiting(), SinkFeeder::kMostWaiting);
  EXPECT_EQ(feeder.lost(), 10u);
  behaviour_.refuse = 0;
  feeder.pump(true);
  ASSERT_EQ(behaviour_.written.size(), SinkFeeder::kMostWaiting);
  for (std::size_t i = 0; i < behaviour_.written.size(); ++i) {
    ASSERT_EQ(behaviour_.written[i], i + 10);
  }
}

TEST_F(Feeder, gathers_batches_and_hands_the_rest_over_at_the_end) {
  SinkFeeder feeder = make(3);
  for (std::uint64_t i = 0; i < 5; ++i) {
    feeder.offer(report(i));
    feeder.pump(false);
  }
  EXPECT_EQ(behaviour_.written.size(), 3u);
  feeder.close();
  EXPECT_EQ(behaviour_.written.size(), 5u);
  EXPECT_EQ(behaviour_.closes, 1);
  EXPECT_EQ(behaviour_.opens, 1);
  SinkFeeder never = make(0);
  never.offer(report(1));
  never.pump(false);
  EXPECT_EQ(behaviour_.written.size(), 5u);
}

TEST_F(Feeder, a_batch_larger_than_what_may_wait_loses_nothing) {
  for (std::uint64_t batch : {std::uint64_t{5'000}, std::uint64_t{0}}) {
    behaviour_.written.clear();
    SinkFeeder feeder = make(batch);
    for (std::uint64_t i = 0; i < 10'000; ++i) feeder.offer(report(i));
    EXPECT_EQ(feeder.lost(), 0u);
    feeder.close();
    EXPECT_EQ(behaviour_.written.size(), 10'000u);
  }
}

TEST_F(Feeder, a_sink_with_a_pace_is_written_no_more_often_unless_told_to_or_too_much_waits) {
  behaviour_.pace = std::chrono::seconds(1);
  SinkFeeder feeder = make(1);
  std::uint64_t step = 0;
  auto go_on = [&](std::chrono::milliseconds passed, std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps; ++i) feeder.offer(report(++step));
    clock_.advance(passed);
    feeder.pump(false);
    return behaviour_.writes;
  };
  EXPECT_EQ(go_on(std::chrono::milliseconds(0), 1), 1);  // the first at once
  EXPECT_EQ(go_on(std::chrono::milliseconds(999), 7), 1);
  EXPECT_EQ(go_on(std::chrono::milliseconds(1), 1), 2);
  EXPECT_EQ(behaviour_.written.size(), 9u);
  feeder.offer(report(++step));
  feeder.pump(true);
  EXPECT_EQ(behaviour_.written.size(), 10u);
  go_on(std::chrono::milliseconds(1), SinkFeeder::kMostWaiting / 2);
  EXPECT_EQ(behaviour_.written.size(), 10 + SinkFeeder::kMostWaiting / 2);
  EXPECT_EQ(feeder.lost(), 0u);
}

TEST_F(Feeder, counts_what_a_sink_that_never_came_back_lost) {
  SinkFeeder feeder = make(1);
  behaviour_.refuse = 100;
  feeder.offer(report(1));
  feeder.close();
  EXPECT_EQ(feeder.lost(), 1u);
}

}  // namespace
}  // namespace mfu
