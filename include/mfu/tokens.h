// Tokens that generation makes, counted from many threads at once without losing one, and what a
// period of them comes to.
//
//   mfu::TokenTracker tokens(clock);
//   tokens.add(128);                          // any thread, any time
//   mfu::TokenPeriod period = tokens.take();  // the period ends here, the next one begins
//   auto used = mfu::generation_use(period, {.model = &*model});
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "mfu/clock.h"
#include "mfu/measure.h"

namespace mfu {

// What was generated between two take()s.
struct TokenPeriod {
  std::chrono::nanoseconds elapsed{};
  std::uint64_t generated = 0;  // new tokens: by add(), and those of decode steps
  // Of prefill and decode, where they were told apart.
  std::uint64_t prompts = 0, prompt_tokens = 0, prompt_squares = 0;
  std::uint64_t decode_steps = 0, decode_tokens = 0, decode_context = 0;  // Σ context of the tokens
};

// Counters stand a cache line apart, a line a thread while there are no more threads than lines.
// take() reads them and remembers: nothing is ever set back, so no token can fall between.
class TokenTracker {
 public:
  explicit TokenTracker(const Clock& clock = Clock::system());

  // Tokens that were generated, nothing more being known of them.
  void add(std::uint64_t tokens) { add_to(line().generated, tokens); }
  // Prompts that went into the cache.
  void add_prefill(const StepShape& prompts);
  // One decode step: a new token for each of `sequences`, which hold `context` tokens in all.
  void add_decode(std::uint64_t sequences, std::uint64_t context);

  // Ends a period. Callable from any thread.
  TokenPeriod take();

 private:
  using Counter = std::atomic<std::uint64_t>;
  static constexpr std::size_t kLines = 64;
  struct alignas(128) Line {
    Counter generated{0}, prompts{0}, prompt_tokens{0}, prompt_squares{0};
    Counter decode_steps{0}, decode_tokens{0}, decode_context{0};
  };
  static void add_to(Counter& counter, std::uint64_t more) {
    counter.fetch_add(more, std::memory_order_relaxed);
  }
  static std::size_t thread_number();
  Line& line() {
    thread_local const std::size_t kNumber = thread_number();
    return lines_[kNumber % kLines];
  }
  TokenPeriod sum() const;

  const Clock& clock_;
  std::array<Line, kLines> lines_;
  std::mutex taking_;
  TokenPeriod taken_;  // everything up to the last take(); elapsed: when that was
};

struct GenerationOptions {
  const ModelSpec* model = nullptr;        // FLOPs by phase and context length
  std::optional<double> flop_per_token{};  // instead, or where there is no model
};

struct GenerationUse {
  double tokens_per_s = 0;
  std::uint64_t tokens = 0;
  std::chrono::nanoseconds elapsed{};
  std::optional<double> flop_per_token{};
  std::optional<FlopCount> flop{};
  std::optional<Bytes> moved{};  // by decode steps, where those were counted
  std::string note{};            // why something is not there
};
// `invalid_argument` where no time went by or nothing was generated.
Result<GenerationUse> generation_use(const TokenPeriod& period, const GenerationOptions& options);

}  // namespace mfu
