#include "monitor/step_queue.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/file.h"

namespace mfu {
namespace {

bool push(StepQueue& queue, std::uint64_t step) {
  std::uint64_t position = 0;
  QueueSlot* slot = queue.claim(position);
  if (slot == nullptr) return false;
  slot->step.kind = LoggedKind::step;
  slot->step.step = step;
  slot->step.tokens = ~step;
  StepQueue::publish(*slot, position);
  return true;
}

TEST(StepQueue, keeps_order_and_drops_when_full) {
  Result<StepQueue> made = StepQueue::create("", 4);
  StepQueue& queue = made.value();
  for (std::uint64_t i = 0; i < 6; ++i) EXPECT_EQ(push(queue, i), i < 4);
  EXPECT_EQ(queue.dropped(), 2u);
  EXPECT_EQ(queue.at(0)->step, 0u);
  queue.free(0);
  EXPECT_TRUE(push(queue, 7));
  EXPECT_FALSE(push(queue, 8));
  EXPECT_EQ(queue.at(4)->step, 7u);
  EXPECT_EQ(queue.at(5), nullptr);
}

TEST(StepQueue, is_crowded_where_half_of_it_is_taken_and_only_then) {
  Result<StepQueue> made = StepQueue::create("", 8);
  StepQueue& queue = made.value();
  std::vector<std::uint64_t> crowded;
  for (std::uint64_t i = 0; i < 28; ++i) {
    if (i == 24) {
      for (std::uint64_t late = 16; late < 24; ++late) queue.free(late);
    }
    ASSERT_TRUE(push(queue, i));
    if (queue.crowded(i)) crowded.push_back(i);
    if (i < 16) queue.free(i);  // then nobody drains, and the queue fills up to 24
  }
  EXPECT_EQ(crowded, (std::vector<std::uint64_t>{23}));
}

TEST(StepQueue, takes_a_power_of_two) {
  for (std::size_t bad : {0u, 1u, 3u, 1000u}) {
    EXPECT_EQ(StepQueue::create("", bad).error().code, ErrorCode::invalid_argument);
  }
}

TEST(StepQueue, loses_nothing_that_it_took_from_many_threads) {
  Result<StepQueue> made = StepQueue::create("", 256);
  StepQueue& queue = made.value();
  constexpr std::uint64_t kThreads = 4, kEach = 20'000;
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> taken = 0;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        if (push(queue, t * kEach + i)) taken.fetch_add(1);
      }
    });
  }
  std::vector<std::uint64_t> next(kThreads, 0);
  std::uint64_t seen = 0;
  auto consume = [&] {
    for (const LoggedStep* step = nullptr; (step = queue.at(seen)) != nullptr; ++seen) {
      EXPECT_EQ(step->tokens, ~step->step);
      std::uint64_t thread = step->step / kEach;
      EXPECT_GE(step->step % kEach + 1, next[thread] + 1);  // the steps of each thread are in order
      next[thread] = step->step % kEach;
      queue.free(seen);
    }
  };
  while (seen + queue.dropped() < kThreads * kEach) consume();
  for (std::thread& thread : threads) thread.join();
  consume();
  EXPECT_EQ(seen, taken.load());
  EXPECT_EQ(seen + queue.dropped(), kThreads * kEach);
}

TEST(StepQueue, can_be_read_by_another_after_its_process) {
  std::string path = testing::TempDir() + "queue." + std::to_string(::getpid());
  std::filesystem::remove(path);
  {
    Result<StepQueue> made = StepQueue::create(path, 8);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    for (std::uint64_t i = 0; i < 8; ++i) push(made.value(), 10 + i);
    for (std::uint64_t i = 0; i < 6; ++i) made.value().free(i);
    for (std::uint64_t i = 8; i < 12; ++i) push(made.value(), 10 + i);
    std::uint64_t position = 0;
    made.value().claim(position)->step.step = 999;  // killed before it was published
    EXPECT_FALSE(StepQueue::create(path, 8).has_value());
  }
  Result<LeftInQueue> left = read_queue(path);
  ASSERT_TRUE(left.has_value()) << left.error().message;
  ASSERT_EQ(left->entries.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(left->entries[i].position, 6 + i);
    EXPECT_EQ(left->entries[i].step.step, 16 + i);
  }
  std::string bytes = *read_file(path);
  ASSERT_TRUE(write_file(path, bytes.substr(0, bytes.size() - 1)).has_value());
  EXPECT_EQ(read_queue(path).error().code, ErrorCode::malformed);
  ASSERT_TRUE(write_file(path, "hello").has_value());
  EXPECT_EQ(read_queue(path).error().code, ErrorCode::malformed);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace mfu
