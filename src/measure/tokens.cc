#include "mfu/measure.h"

#include <cmath>

#include <fmt/format.h>

namespace mfu {

TokenTracker::TokenTracker(const Clock& clock) : clock_(clock) {
  taken_.elapsed = clock_.now();
}

std::size_t TokenTracker::thread_number() {
  static std::atomic<std::size_t> threads = 0;
  return threads.fetch_add(1, std::memory_order_relaxed);
}

void TokenTracker::add_prefill(const StepShape& prompts) {
  Line& mine = line();
  add_to(mine.prompts, prompts.sequences);
  add_to(mine.prompt_tokens, prompts.tokens);
  add_to(mine.prompt_squares, prompts.squares);
}

void TokenTracker::add_decode(std::uint64_t sequences, std::uint64_t context) {
  Line& mine = line();
  add_to(mine.decode_steps, 1);
  add_to(mine.decode_tokens, sequences);
  add_to(mine.decode_context, context);
}

TokenPeriod TokenTracker::sum() const {
  TokenPeriod all;
  auto read = [](const Counter& counter) { return counter.load(std::memory_order_relaxed); };
  for (const Line& each : lines_) {
    all.generated += read(each.generated);
    all.prompts += read(each.prompts);
    all.prompt_tokens += read(each.prompt_tokens);
    all.prompt_squares += read(each.prompt_squares);
    all.decode_steps += read(each.decode_steps);
    all.decode_tokens += read(each.decode_tokens);
    all.decode_context += read(each.decode_context);
  }
  all.generated += all.decode_tokens;
  return all;
}

TokenPeriod TokenTracker::take() {
  std::lock_guard lock(taking_);
  TokenPeriod all = sum();
  all.elapsed = clock_.now();
  TokenPeriod period{.elapsed = all.elapsed - taken_.elapsed,
                     .generated = all.generated - taken_.generated,
                     .prompts = all.prompts - taken_.prompts,
                     .prompt_tokens = all.prompt_tokens - taken_.prompt_tokens,
                     .prompt_squares = all.prompt_squares - taken_.prompt_squares,
                     .decode_steps = all.decode_steps - taken_.decode_steps,
                     .decode_tokens = all.decode_tokens - taken_.decode_tokens,
                     .decode_context = all.decode_context - taken_.decode_context};
  taken_ = all;
  return period;
}

namespace {

// Decode steps of one token per sequence. FLOPs are linear in the context until a window is full,
// so the mean context gives the sum. Between two whole contexts the value is interpolated.
template <typename Measure>
Result<double> over_contexts(const TokenPeriod& period, std::uint64_t batch,
                             const Measure& measure) {
  std::uint64_t below = period.decode_context / period.decode_tokens;
  double part = static_cast<double>(period.decode_context % period.decode_tokens) /
                static_cast<double>(period.decode_tokens);
  Workload work{.phase = Phase::decode, .batch = batch, .sequence = 1, .context = below};
  double low = MFU_TRY(measure(work));
  work.context = below + 1;
  double high = MFU_TRY(measure(work));
  return low + (high - low) * part;
}

Result<double> flop_by_phase(const ModelSpec& model, const TokenPeriod& period) {
  double flop = 0;
  if (period.prompt_tokens != 0) {
    Workload prefill{.phase = Phase::prefill};
    prefill.sums = LengthSums{period.prompts, period.prompt_tokens, period.prompt_squares};
    flop += MFU_TRY(flop_per_step(model, prefill)).model_flop.to_double();
  }
  if (period.decode_tokens != 0) {
    auto need = [&](const Workload& work) -> Result<double> {
      FlopNeed found = MFU_TRY(flop_per_step(model, work));
      return found.model_flop.to_double();
    };
    flop += MFU_TRY(over_contexts(period, period.decode_tokens, need));
  }
  std::uint64_t unplaced = period.generated - period.decode_tokens;
  if (unplaced != 0) {
    Workload one{.phase = Phase::forward, .batch = unplaced, .sequence = 1};
    flop += MFU_TRY(flop_per_step(model, one)).model_flop.to_double();
  }
  return flop;
}

// Every decode step reads the weights and its cache once.
Result<std::optional<Bytes>> bytes_moved(const ModelSpec& model, const TokenPeriod& period) {
  if (period.decode_steps == 0 || period.decode_tokens == 0) return std::optional<Bytes>();
  std::uint64_t batch = (period.decode_tokens + period.decode_steps / 2) / period.decode_steps;
  auto traffic = [&](const Workload& work) -> Result<double> {
    ByteNeed need = MFU_TRY(bytes_per_step(model, work));
    return static_cast<double>(need.step_read.value_or(0) + need.step_written.value_or(0));
  };
  double step = MFU_TRY(over_contexts(period, batch == 0 ? 1 : batch, traffic));
  return std::optional<Bytes>(
      Bytes{static_cast<std::uint64_t>(step * static_cast<double>(period.decode_steps))});
}

}  // namespace

Result<GenerationUse> generation_use(const TokenPeriod& period, const GenerationOptions& options) {
  if (period.elapsed.count() <= 0) {
    return fail(ErrorCode::invalid_argument, "no time went by in this period of generation");
  }
  if (period.generated == 0) {
    return fail(ErrorCode::invalid_argument,
                "no token was generated in this period: generation threads report them by add()");
  }
  double generated = static_cast<double>(period.generated);
  GenerationUse use{.tokens_per_s = generated * 1e9 / static_cast<double>(period.elapsed.count()),
                    .tokens = period.generated,
                    .elapsed = period.elapsed};
  if (options.flop_per_token) {
    use.flop_per_token = options.flop_per_token;
    use.flop =
        FlopCount::from_wide(static_cast<Uint128>(std::round(*options.flop_per_token * generated)));
  } else if (options.model != nullptr) {
    double flop = MFU_TRY(flop_by_phase(*options.model, period));
    use.flop = FlopCount::from_wide(static_cast<Uint128>(std::round(flop)));
    use.flop_per_token = flop / generated;
  } else {
    use.note = "neither a model nor FLOPs a token: no FLOPs of generation";
  }
  if (options.model != nullptr) use.moved = MFU_TRY(bytes_moved(*options.model, period));
  return use;
}

}  // namespace mfu
