#include "mfu/measure.h"

#include <gtest/gtest.h>

#include <thread>

#include "measure/testing.h"

namespace mfu {
namespace {

TEST(TokenTracker, loses_no_token_between_periods) {
  TokenTracker tokens;
  constexpr std::uint64_t kThreads = 6, kEach = 20'000;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        tokens.add(3);
        if (i % 10 == 0) tokens.add_decode(2, 100);
      }
    });
  }
  std::uint64_t generated = 0, context = 0;
  for (int i = 0; i < 200; ++i) {
    TokenPeriod period = tokens.take();
    generated += period.generated, context += period.decode_context;
  }
  for (std::thread& thread : threads) thread.join();
  TokenPeriod rest = tokens.take();
  EXPECT_EQ(generated + rest.generated, kThreads * (kEach * 3 + kEach / 10 * 2));
  EXPECT_EQ(context + rest.decode_context, kThreads * kEach / 10 * 100);
  EXPECT_EQ(tokens.take().generated, 0u);
}

TEST(TokenTracker, measures_its_periods_by_the_clock) {
  FakeClock clock;
  TokenTracker tokens(clock);
  clock.advance(std::chrono::seconds(10));
  tokens.add(1505);
  TokenPeriod period = tokens.take();
  EXPECT_EQ(period.elapsed, std::chrono::seconds(10));
  // The document's example: 1505 tokens in 10 s are 150.5 a second.
  Result<GenerationUse> use = generation_use(period, {.flop_per_token = 1234567890.0});
  EXPECT_DOUBLE_EQ(use->tokens_per_s, 150.5);
  EXPECT_EQ(use->flop->to_string(), "1858024674450");
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(tokens.take().elapsed, std::chrono::seconds(1));
}

TEST(Generation, counts_prefill_and_decode_as_the_model_needs_them) {
  FakeClock clock;
  TokenTracker tokens(clock);
  ModelSpec model = small();
  tokens.add_prefill(StepShape::of(2, 16));
  // Two sequences, three tokens each, one decode step at a time.
  for (std::uint64_t i = 0; i < 3; ++i) tokens.add_decode(2, 2 * (16 + i));
  clock.advance(std::chrono::seconds(2));
  Result<GenerationUse> use = generation_use(tokens.take(), {.model = &model});
  ASSERT_TRUE(use.has_value());
  FlopCount expected =
      flop_per_step(model, {.phase = Phase::prefill, .batch = 2, .sequence = 16})->model_flop;
  for (std::uint64_t i = 0; i < 3; ++i) {
    Workload step{.phase = Phase::decode, .batch = 2, .sequence = 1, .context = 16 + i};
    expected += flop_per_step(model, step)->model_flop;
  }
  EXPECT_EQ(*use->flop, expected);
  EXPECT_EQ(use->tokens, 6u);
  ASSERT_TRUE(use->moved.has_value());
  Workload middle{.phase = Phase::decode, .batch = 2, .sequence = 1, .context = 17};
  ByteNeed bytes = *bytes_per_step(model, middle);
  EXPECT_EQ(use->moved->count, 3 * (*bytes.step_read + *bytes.step_written));
}

TEST(Generation, says_why_not) {
  EXPECT_FALSE(generation_use({.generated = 5}, {}).has_value());
  EXPECT_FALSE(generation_use({.elapsed = std::chrono::seconds(1)}, {}).has_value());
  Result<GenerationUse> bare =
      generation_use({.elapsed = std::chrono::seconds(1), .generated = 5}, {});
  EXPECT_FALSE(bare->flop.has_value());
  EXPECT_FALSE(bare->note.empty());
}

}  // namespace
}  // namespace mfu
