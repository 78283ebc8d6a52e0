// A logged step: 120 plain bytes that go from the loop to the background thread, and unchanged to
// the run directory. docs/formats/steps.md describes them.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mfu {

enum class LoggedKind : std::uint8_t {
  none,
  step,         // log_step
  reading,      // counted FLOPs of a step
  calibration,  // a calibration of another rank
  period,       // a period of generation; written by the background thread
  hardware,     // a rate of the hardware counters; written by the background thread
  shared,       // a calibration that the background thread found in the run directory
  arrived,      // the missing numbers of an awaited step
  phase,        // what one phase did in a period; comes before the step that ends the period
};

// Which of the fields were given.
enum LoggedHas : std::uint16_t {
  has_epoch = 1,
  has_loss = 2,
  has_grad_norm = 4,
  has_learning_rate = 8,
  has_duration = 16,
  has_flop = 32,
  has_attention_flop = 64,
  of_another_rank = 128,  // for a reading
  awaits = 256,           // for a step of which a device has not computed all numbers yet
  has_shape = 512,        // for numbers that arrived
};

struct LoggedStep {
  LoggedKind kind = LoggedKind::none;
  std::uint8_t phase = 0;  // a TrainingPhase; for the kind `phase`, a RunPhase
  std::uint16_t has = 0;
  std::uint32_t padded_length = 0;
  std::uint64_t step = 0;
  std::int64_t end_ns = 0;  // the monitor's clock
  double duration_s = 0;
  // These are for a step. A reading keeps its attention FLOPs in the first two. For a calibration,
  // a period, a phase and hardware see logged_step.cc.
  union {
    struct {
      double epoch, loss, grad_norm, learning_rate;
    } of;
    std::uint64_t word[4];
    double number[4];
  };
  std::uint64_t samples = 0, sequences = 0, tokens = 0, squares = 0;
  std::uint32_t images = 0;
  std::uint32_t ticket = 0;  // the same for an awaited step and for its numbers
  std::uint64_t flop_low = 0, flop_high = 0;

  LoggedStep() : of{} {}
};
static_assert(sizeof(LoggedStep) == 120 && std::is_trivially_copyable_v<LoggedStep>);

}  // namespace mfu
