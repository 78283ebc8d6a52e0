#include <fmt/format.h>

#include <cmath>
#include <deque>

#include "measure/calibrate.h"
#include "mfu/measure.h"

namespace mfu {

namespace {

// How many readings are kept: enough to separate two terms, and few enough to follow a model that
// changes.
constexpr std::size_t kMostPoints = 16;

// The model as eager code runs it: every pair of a sequence, whatever the mask allows.
ModelSpec with_whole_squares(ModelSpec model) {
  for (Stage& stage : model.stages) {
    for (LayerKind& kind : stage.kinds) {
      for (Component& component : kind.components) {
        auto* attention = std::get_if<Attention>(&component.work);
        if (attention == nullptr) continue;
        switch (attention->mask.kind) {
          case MaskKind::causal:
          case MaskKind::window:
          case MaskKind::chunked:
          case MaskKind::prefix:
          case MaskKind::local:
            attention->mask = {.kind = MaskKind::bidirectional};
            break;
          default:
            break;
        }
      }
    }
  }
  return model;
}

FlopCount rounded(double flop) {
  return FlopCount::from_wide(static_cast<Uint128>(std::round(flop)));
}

}  // namespace

struct FlopMeter::State {
  MeterOptions options;
  std::optional<ModelSpec> squares;
  std::deque<CalibrationPoint> points;
  Calibration calibration;
  std::optional<FlopReading> reading;  // the newest
  Result<FlopRate> hardware = fail(ErrorCode::not_found, "no hardware counters were given");

  Result<FlopNeed> need(const ModelSpec& model, const StepShape& shape) const {
    Workload work{.phase = options.phase};
    work.sums = LengthSums{shape.sequences, shape.tokens, shape.squares};
    work.images = shape.images;
    work.recompute = options.recompute;
    if (options.training) return flop_per_step(model, work, *options.training);
    return flop_per_step(model, work);
  }

  Result<FlopCount> estimate(const StepShape& shape) const {
    if (!options.model) {
      return fail(ErrorCode::invalid_argument,
                  "there is no model to estimate from: give its config.json or shape");
    }
    if (!shape.known()) {
      return fail(ErrorCode::invalid_argument,
                  "the step has no tokens: give its batch and length, or the lengths");
    }
    return MFU_TRY(need(*options.model, shape)).model_flop;
  }

  // The shape that the counted operators ran over, including padding.
  static StepShape executed(const StepShape& shape) {
    if (shape.padded_length == 0) return shape;
    StepShape whole = StepShape::of(shape.sequences, shape.padded_length);
    whole.images = shape.images;
    return whole;
  }

  Result<FlopTerms> terms(const StepShape& shape) const {
    MFU_TRY(estimate(shape));
    FlopNeed attended = MFU_TRY(need(*options.model, executed(shape)));
    FlopNeed square = MFU_TRY(need(*squares, executed(shape)));
    double attention = attended.by_part[Part::attention_scores].to_double();
    return FlopTerms{.linear = attended.model_flop.to_double() - attention,
                     .attended = attention,
                     .square = square.by_part[Part::attention_scores].to_double()};
  }

  bool counted(std::uint64_t step, const StepShape& shape) const {
    if (!reading || reading->step != step) return false;
    return !reading->of_another_rank || executed(reading->shape) == executed(shape);
  }

  Result<MeasuredFlop> estimated(const StepShape& shape, std::string note) const {
    return MeasuredFlop{.flop = MFU_TRY(estimate(shape)), .note = std::move(note)};
  }

  Result<MeasuredFlop> by_smart(const SmartMode& mode, std::uint64_t step,
                                const StepShape& shape) const {
    if (!mode.calibration_enabled) return estimated(shape, "");
    if (calibration.readings == 0) return estimated(shape, "not calibrated yet");
    MeasuredFlop found{.flop = {}, .source = Source::calibrated};
    found.flop = rounded(calibrated_flop(calibration, MFU_TRY(terms(shape))));
    found.calibration = calibration;
    found.calibration_age = step > calibration.step ? step - calibration.step : 0;
    return found;
  }

  Result<MeasuredFlop> by_hybrid(const HybridMode& mode, std::uint64_t step, const StepShape& shape,
                                 std::optional<std::chrono::nanoseconds> duration) const {
    if (mode.hardware_counters_enabled && hardware.has_value() && duration) {
      double seconds = static_cast<double>(duration->count()) / 1e9;
      return MeasuredFlop{.flop = rounded(hardware->per_s * seconds), .source = Source::hardware};
    }
    std::string why = !mode.hardware_counters_enabled ? "hardware counters are switched off"
                      : !hardware.has_value()         ? hardware.error().message
                                                      : "the step has no time";
    if (mode.fallback_to_profiler && counted(step, shape)) {
      return MeasuredFlop{.flop = reading->flop,
                          .source = Source::counted,
                          .note = fmt::format("{}: counted operators instead", why)};
    }
    return estimated(shape, fmt::format("{}: estimated instead", why));
  }
};

FlopMeter::FlopMeter(MeterOptions options) : state_(std::make_unique<State>()) {
  if (options.model) state_->squares = with_whole_squares(*options.model);
  state_->options = std::move(options);
}
FlopMeter::~FlopMeter() = default;
FlopMeter::FlopMeter(FlopMeter&&) noexcept = default;
FlopMeter& FlopMeter::operator=(FlopMeter&&) noexcept = default;

void FlopMeter::take_reading(const FlopReading& reading) {
  State& state = *state_;
  state.reading = reading;
  if (!std::holds_alternative<SmartMode>(state.options.mode)) return;
  Result<FlopTerms> terms = state.terms(reading.shape);
  if (!terms.has_value() || terms->linear <= 0 || reading.flop == FlopCount(0)) return;
  CalibrationPoint point{
      .step = reading.step, .terms = *terms, .measured = reading.flop.to_double()};
  if (reading.attention_flop && *reading.attention_flop < reading.flop) {
    point.measured_attention = reading.attention_flop->to_double();
  }
  state.points.push_back(point);
  if (state.points.size() > kMostPoints) state.points.pop_front();
  std::vector<CalibrationPoint> points(state.points.begin(), state.points.end());
  Calibration found = calibrate(points);
  // Old readings that the newest one contradicts belong to another model: a layer was frozen, or
  // attention runs differently now.
  if (std::abs(calibrated_flop(found, point.terms) / point.measured - 1) > 1e-3) {
    state.points = {point};
    found = calibrate(std::span(&point, 1));
  }
  state.calibration = found;
}

void FlopMeter::take_calibration(const Calibration& calibration) {
  state_->calibration = calibration;
}

const Calibration& FlopMeter::calibration() const {
  return state_->calibration;
}

void FlopMeter::take_hardware_rate(const Result<FlopRate>& rate) {
  state_->hardware = rate;
}

Result<MeasuredFlop> FlopMeter::measure(std::uint64_t step, const StepShape& shape,
                                        std::optional<std::chrono::nanoseconds> duration) {
  const State& state = *state_;
  if (const auto* hybrid = std::get_if<HybridMode>(&state.options.mode)) {
    return state.by_hybrid(*hybrid, step, shape, duration);
  }
  if (std::holds_alternative<EstimateMode>(state.options.mode)) return state.estimated(shape, "");
  if (state.counted(step, shape)) {
    return MeasuredFlop{.flop = state.reading->flop, .source = Source::counted};
  }
  if (const auto* smart = std::get_if<SmartMode>(&state.options.mode)) {
    return state.by_smart(*smart, step, shape);
  }
  return fail(ErrorCode::not_found, "this step's FLOPs were not counted");
}

bool FlopMeter::wants_reading(std::uint64_t step, const StepShape& shape) const {
  const auto* smart = std::get_if<SmartMode>(&state_->options.mode);
  if (smart == nullptr || !smart->calibration_enabled) return false;
  const Calibration& calibration = state_->calibration;
  if (calibration.readings == 0) return smart->initial_profiling;
  if (smart->recalibration_frequency != 0 && step > calibration.step &&
      step - calibration.step >= smart->recalibration_frequency) {
    return true;
  }
  Result<FlopTerms> terms = state_->terms(shape);
  return terms.has_value() && leaves(calibration, *terms);
}

}  // namespace mfu
