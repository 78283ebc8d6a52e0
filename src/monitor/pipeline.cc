#include "monitor/pipeline.h"

#include <fmt/format.h>

#include <cmath>

#include "mfu/sink.h"

namespace mfu {

namespace {

StepShape logged_shape(const LoggedStep& logged) {
  return {.sequences = logged.sequences,
          .tokens = logged.tokens,
          .squares = logged.squares,
          .padded_length = logged.padded_length,
          .images = logged.images};
}

FlopReading logged_flop(const LoggedStep& logged) {
  FlopReading reading{.step = logged.step,
                      .shape = logged_shape(logged),
                      .flop = FlopCount::from_halves(logged.flop_high, logged.flop_low)};
  if (logged.has & has_attention_flop) {
    reading.attention_flop = FlopCount::from_halves(logged.word[1], logged.word[0]);
  }
  reading.of_another_rank = (logged.has & of_another_rank) != 0;
  return reading;
}

Calibration logged_factors(const LoggedStep& logged) {
  return {.linear = logged.number[0],
          .quadratic = logged.number[1],
          .square = (logged.sequences & 1) != 0,
          .step = logged.step,
          .readings = static_cast<std::uint32_t>(logged.samples),
          .apart = (logged.sequences & 2) != 0,
          .least_share = logged.number[2],
          .most_share = logged.number[3]};
}

bool usable(const Calibration& calibration) {
  return std::isfinite(calibration.linear) && calibration.linear > 0 &&
         std::isfinite(calibration.quadratic) && calibration.quadratic > 0;
}

}  // namespace

StepPipeline::StepPipeline(PipelineOptions options, Warn warn)
    : options_(std::move(options)),
      basis_(std::make_shared<UtilizationBasis>(options_.basis)),
      meter_(options_.meter),
      warn_(std::move(warn)) {}

void StepPipeline::warn(std::string_view kind, std::string message) {
  if (warned_.emplace(kind).second) warn_(std::move(message));
}

std::optional<StepReport> StepPipeline::take(const LoggedStep& logged) {
  switch (logged.kind) {
    case LoggedKind::step:
      return report(logged);
    case LoggedKind::reading:
      meter_.take_reading(logged_flop(logged));
      return std::nullopt;
    case LoggedKind::calibration:
    case LoggedKind::shared:
      if (Calibration factors = logged_factors(logged); usable(factors)) {
        meter_.take_calibration(factors);
      } else {
        warn("calibration",
             "a calibration with factors that are not above 0 was handed over: it "
             "is left aside");
      }
      return std::nullopt;
    case LoggedKind::period:
      take_period(logged);
      return std::nullopt;
    case LoggedKind::phase:
      take_phase(logged);
      return std::nullopt;
    case LoggedKind::hardware:
      meter_.take_hardware_rate(
          logged.has & has_flop
              ? Result<FlopRate>(FlopRate{logged.number[0]})
              : Result<FlopRate>(fail(ErrorCode::not_found, "no hardware counters at this step")));
      return std::nullopt;
    case LoggedKind::arrived:  // its step already has these numbers when it comes here
    case LoggedKind::none:
      break;
  }
  return std::nullopt;
}

void StepPipeline::take_period(const LoggedStep& logged) {
  TokenPeriod period{.elapsed = std::chrono::nanoseconds(logged.end_ns),
                     .generated = logged.word[0],
                     .prompts = logged.sequences,
                     .prompt_tokens = logged.tokens,
                     .prompt_squares = logged.squares,
                     .decode_steps = logged.word[1],
                     .decode_tokens = logged.word[2],
                     .decode_context = logged.word[3]};
  const ModelSpec* model = options_.meter.model ? &*options_.meter.model : nullptr;
  Result<GenerationUse> use =
      generation_use(period, {.model = model, .flop_per_token = options_.flop_per_token});
  if (!use.has_value()) {
    warn("generation", fmt::format("mfu/… is left out: {}", use.error().message));
    return;
  }
  if (!use->note.empty()) warn("generation", "mfu/mfu_percentage is left out: " + use->note);
  generation_ = *use;
}

void StepPipeline::take_phase(const LoggedStep& logged) {
  if (logged.phase >= kRunPhases || phases_.size() >= kRunPhases) return;
  PhaseDone sum{.phase = static_cast<RunPhase>(logged.phase),
                .tokens = logged.tokens,
                .flop = FlopCount::from_halves(logged.flop_high, logged.flop_low),
                .time = std::chrono::nanoseconds(logged.end_ns)};
  if (logged.word[1] != 0) sum.moved = Bytes{logged.word[0]};
  phases_.push_back(sum);
  phases_time_ = std::chrono::nanoseconds(static_cast<std::int64_t>(logged.word[2]));
}

std::optional<GenerationUse> StepPipeline::observed_generation() const {
  GenerationUse use{.elapsed = phases_time_};
  FlopCount flop{};
  std::optional<Bytes> moved = Bytes{};
  for (const PhaseDone& each : phases_) {
    if (each.phase != RunPhase::prefill && each.phase != RunPhase::decode) continue;
    if (each.phase == RunPhase::decode) use.tokens += each.tokens;
    flop = flop + each.flop;
    moved =
        moved && each.moved ? std::optional(Bytes{moved->count + each.moved->count}) : std::nullopt;
  }
  if (use.tokens == 0 || use.elapsed.count() <= 0) return std::nullopt;
  auto tokens = static_cast<double>(use.tokens);
  use.tokens_per_s = tokens * 1e9 / static_cast<double>(use.elapsed.count());
  use.flop = flop;
  use.flop_per_token = flop.to_double() / tokens;
  use.moved = moved;
  return use;
}

std::optional<double> StepPipeline::number(double value, bool given, std::string_view name,
                                           const LoggedStep& logged) {
  if (!given) return std::nullopt;
  if (std::isfinite(value)) return value;
  warn(name, fmt::format("step {}: {} is {}: it is left out (look for a division by zero or a "
                         "learning rate too high)",
                         logged.step, name, value));
  return std::nullopt;
}

std::optional<std::chrono::nanoseconds> StepPipeline::duration_of(const LoggedStep& logged) {
  std::optional<std::int64_t> last = std::exchange(last_end_ns_, logged.end_ns);
  std::optional<std::uint64_t> before = std::exchange(last_step_, logged.step);
  if (before && logged.step <= *before) {
    warn("order", fmt::format("step {} came after step {}: its time, MFU and rates are left out; "
                              "log each step once, in order (after a resume this is said once)",
                              logged.step, *before));
    return std::nullopt;
  }
  if (logged.has & has_duration) {
    double seconds = logged.duration_s;
    // 1e9 seconds are 31 years.
    if (std::isfinite(seconds) && seconds >= 1e-9 && seconds < 1e9) {
      return std::chrono::nanoseconds(std::llround(seconds * 1e9));
    }
    warn("time", fmt::format("step {} took {} s: its MFU and rates are left out; give the seconds "
                             "of the step, above 0, or leave them out to have them measured",
                             logged.step, seconds));
    return std::nullopt;
  }
  if (!last) return std::nullopt;  // the first step: there is no earlier time
  if (logged.end_ns > *last) return std::chrono::nanoseconds(logged.end_ns - *last);
  warn("clock", fmt::format("step {} ended when the one before it did: its MFU and rates are left "
                            "out; log a step where it ends",
                            logged.step));
  return std::nullopt;
}

StepShape StepPipeline::shape_of(const LoggedStep& logged) {
  StepShape shape = logged_shape(logged);
  if (shape.tokens == 0) {
    warn("tokens", fmt::format("step {} has no tokens: tokens a second and MFU are left out; give "
                               "its batch and length, or the sums of its attention mask",
                               logged.step));
    return {};
  }
  if (shape.sequences == 0) shape.sequences = 1;
  if (shape.squares == 0) {  // equal lengths
    double mean = static_cast<double>(shape.tokens) / static_cast<double>(shape.sequences);
    shape.squares =
        static_cast<std::uint64_t>(std::round(mean * static_cast<double>(shape.tokens)));
  }
  Uint128 tokens = shape.tokens;
  // (Σs)² ≤ n Σs² ≤ n (Σs)², and no sequence is longer than the padded length. Rounding may make it
  // off by one.
  bool sums_fit = tokens >= shape.sequences && shape.squares >= shape.tokens &&
                  Uint128(shape.squares + 1) * shape.sequences >= tokens * tokens &&
                  shape.squares <= tokens * tokens;
  bool padding_fits =
      shape.padded_length == 0 || Uint128(shape.padded_length) * shape.sequences >= tokens;
  if (sums_fit && padding_fits) return shape;
  warn("shape",
       fmt::format("step {}: {} sequences of {} tokens with squares {} padded to {} cannot "
                   "be: MFU and tokens a second are left out; a mask has one row a sequence",
                   logged.step, shape.sequences, shape.tokens, shape.squares, shape.padded_length));
  return {};
}

std::optional<MeasuredFlop> StepPipeline::flop_of(
    const LoggedStep& logged, const StepShape& shape,
    std::optional<std::chrono::nanoseconds> duration) {
  if (logged.has & has_flop) {
    FlopReading reading = logged_flop(logged);
    reading.shape = shape;
    reading.attention_flop.reset();
    if (reading.flop == FlopCount(0)) {
      warn("zero", fmt::format("step {} was counted as 0 FLOP: the model did not run where it was "
                               "counted, or on another device; the number is left out",
                               logged.step));
    } else {
      meter_.take_reading(reading);
    }
  }
  Result<MeasuredFlop> measured = meter_.measure(logged.step, shape, duration);
  if (measured.has_value()) {
    if (!measured->note.empty() && std::holds_alternative<HybridMode>(options_.meter.mode)) {
      warn("hybrid", measured->note);
    }
    return *measured;
  }
  bool unmeasured = std::holds_alternative<ProfilerMode>(options_.meter.mode);
  if (!unmeasured && shape.known()) {
    warn("flop", fmt::format("MFU is left out: {}", measured.error().message));
  }
  return std::nullopt;
}

StepReport StepPipeline::report(const LoggedStep& logged) {
  StepInput input{.step = logged.step,
                  .time = std::chrono::nanoseconds(logged.end_ns) + options_.realtime_offset};
  input.epoch = number(logged.of.epoch, (logged.has & has_epoch) != 0, "epoch", logged);
  input.loss = number(logged.of.loss, (logged.has & has_loss) != 0, "loss", logged);
  input.grad_norm =
      number(logged.of.grad_norm, (logged.has & has_grad_norm) != 0, "grad_norm", logged);
  input.learning_rate = number(logged.of.learning_rate, (logged.has & has_learning_rate) != 0,
                               "learning_rate", logged);
  input.duration = duration_of(logged);
  shape_ = shape_of(logged);
  input.tokens = shape_.tokens;
  input.samples = logged.samples != 0 ? logged.samples : shape_.sequences;
  input.flop = flop_of(logged, shape_, input.duration);
  input.generation = std::exchange(generation_, std::nullopt);
  if (!input.generation) input.generation = observed_generation();
  input.phases = std::exchange(phases_, {});
  if (input.flop && !basis_->peak) {
    warn("peak",
         "MFU is left out: no peak is known; name the device (device: h100-sxm, or auto) or "
         "give its peak in FLOP/s");
  }
  StepReport made = report_step(input, basis_);
  for (const Note& contradiction : made.contradictions) {
    warn("contradiction",
         fmt::format("step {}: {}", logged.step, words_of(contradiction, Voice::python)));
  }
  return made;
}

}  // namespace mfu
