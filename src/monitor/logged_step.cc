// How readings, calibrations, periods and hardware rates are kept in the same 120 bytes as a step.
#include "monitor/pipeline.h"

namespace mfu {

LoggedStep completed(const LoggedStep& awaited, const LoggedStep& arrived) {
  LoggedStep step = awaited;
  auto take = [&](auto& to, const auto& from, LoggedHas bit) {
    if ((arrived.has & bit) == 0) return;
    to = from;
    step.has = static_cast<std::uint16_t>(step.has | bit);
  };
  take(step.of.epoch, arrived.of.epoch, has_epoch);
  take(step.of.loss, arrived.of.loss, has_loss);
  take(step.of.grad_norm, arrived.of.grad_norm, has_grad_norm);
  take(step.of.learning_rate, arrived.of.learning_rate, has_learning_rate);
  take(step.duration_s, arrived.duration_s, has_duration);
  if (arrived.has & has_shape) {
    step.sequences = arrived.sequences;
    step.tokens = arrived.tokens;
    step.squares = arrived.squares;
    step.padded_length = arrived.padded_length;
    step.images = arrived.images;
    if (step.samples == 0) step.samples = arrived.samples;
  }
  return step;
}

LoggedStep logged_reading(const FlopReading& reading) {
  LoggedStep logged;
  logged.kind = LoggedKind::reading;
  logged.step = reading.step;
  keep_shape(logged, reading.shape);
  logged.flop_low = reading.flop.low();
  logged.flop_high = reading.flop.high();
  if (reading.attention_flop) {
    logged.has = has_attention_flop;
    logged.word[0] = reading.attention_flop->low();
    logged.word[1] = reading.attention_flop->high();
  }
  if (reading.of_another_rank) logged.has |= of_another_rank;
  return logged;
}

LoggedStep logged_calibration(const Calibration& calibration) {
  LoggedStep logged;
  logged.kind = LoggedKind::calibration;
  logged.step = calibration.step;
  logged.number[0] = calibration.linear;
  logged.number[1] = calibration.quadratic;
  logged.number[2] = calibration.least_share;
  logged.number[3] = calibration.most_share;
  logged.samples = calibration.readings;
  logged.sequences = (calibration.square ? 1u : 0u) | (calibration.apart ? 2u : 0u);
  return logged;
}

LoggedStep logged_period(const TokenPeriod& period) {
  LoggedStep logged;
  logged.kind = LoggedKind::period;
  logged.end_ns = period.elapsed.count();
  logged.word[0] = period.generated;
  logged.word[1] = period.decode_steps;
  logged.word[2] = period.decode_tokens;
  logged.word[3] = period.decode_context;
  logged.sequences = period.prompts;
  logged.tokens = period.prompt_tokens;
  logged.squares = period.prompt_squares;
  return logged;
}

LoggedStep logged_phase(const PhaseDone& sum, std::chrono::nanoseconds elapsed) {
  LoggedStep logged;
  logged.kind = LoggedKind::phase;
  logged.phase = static_cast<std::uint8_t>(sum.phase);
  logged.end_ns = sum.time.count();
  logged.tokens = sum.tokens;
  logged.flop_low = sum.flop.low();
  logged.flop_high = sum.flop.high();
  logged.word[0] = sum.moved ? sum.moved->count : 0;
  logged.word[1] = sum.moved ? 1 : 0;
  logged.word[2] = static_cast<std::uint64_t>(elapsed.count());
  return logged;
}

LoggedStep logged_hardware(const Result<FlopRate>& rate) {
  LoggedStep logged;
  logged.kind = LoggedKind::hardware;
  if (rate.has_value()) {
    logged.has = has_flop;
    logged.number[0] = rate->per_s;
  }
  return logged;
}

}  // namespace mfu
