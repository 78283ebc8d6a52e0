#include "monitor/sink_thread.h"

#include <gtest/gtest.h>

#include <ctime>

namespace mfu {
namespace {

constexpr std::chrono::milliseconds kShort{5};

std::chrono::nanoseconds own_processor_time() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// The test writes here what the sink shall do; the sink writes here what it has seen.
struct Told {
  std::mutex mutex;
  std::condition_variable changed;
  bool hangs = false, inside = false;
  std::chrono::nanoseconds computes{};
  std::uint64_t written = 0;

  void let_go() {
    std::lock_guard lock(mutex);
    hangs = false;
    changed.notify_all();
  }
  void await_write() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside; });
  }
};

class SlowSink : public Sink {
 public:
  explicit SlowSink(Told& told) : told_(told) {}
  std::string name() const override { return "slow"; }
  Result<void> open() override { return {}; }
  Result<void> write(std::span<const StepReport> reports) override {
    std::unique_lock lock(told_.mutex);
    told_.inside = true;
    told_.changed.notify_all();
    told_.changed.wait(lock, [&] { return !told_.hangs; });
    std::chrono::nanoseconds until = own_processor_time() + told_.computes;
    lock.unlock();
    while (own_processor_time() < until) {
    }
    lock.lock();
    told_.written += reports.size();
    return {};
  }
  Result<void> close() override { return {}; }

 private:
  Told& told_;
};

class SinkThreadTest : public testing::Test {
 protected:
  // A thread whose inbox is full while its sink is in a write.
  std::unique_ptr<SinkThread> full() {
    SinkFeeder feeder(std::make_unique<SlowSink>(told_), clock_, 1, [](const std::string&) {});
    auto thread = std::make_unique<SinkThread>(std::move(feeder), clock_, kShort);
    thread->offer(std::vector<StepReport>(1));
    thread->ask();
    told_.await_write();
    thread->offer(std::vector<StepReport>(SinkFeeder::kMostWaiting));
    return thread;
  }
  FakeClock clock_;
  Told told_;
};

TEST_F(SinkThreadTest, waits_for_a_sink_that_computes_for_long) {
  told_.computes = 40 * kShort;
  std::unique_ptr<SinkThread> thread = full();
  EXPECT_TRUE(thread->await_room(SinkFeeder::kMostWaiting, [] {}));
  {
    std::lock_guard lock(told_.mutex);
    EXPECT_GE(told_.written, 1u);
    told_.computes = {};
  }
  EXPECT_EQ(thread->lost(), 0u);
}

TEST_F(SinkThreadTest, does_not_wait_for_a_sink_that_hangs_until_it_has_written_again) {
  told_.hangs = true;
  std::unique_ptr<SinkThread> thread = full();
  int turns = 0;
  EXPECT_FALSE(thread->await_room(1, [&] { ++turns; }));
  EXPECT_GE(turns, 1);
  turns = 0;
  EXPECT_FALSE(thread->await_room(1, [&] { ++turns; }));  // returns at once
  EXPECT_EQ(turns, 0);
  told_.let_go();
  thread->ask();
  EXPECT_TRUE(thread->answered(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
  EXPECT_TRUE(thread->await_room(1, [] {}));
  EXPECT_EQ(thread->lost(), 0u);
}

}  // namespace
}  // namespace mfu
