// Calibration as arithmetic on plain numbers. The measured and the estimated FLOPs of the same
// steps give the factor of each term.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "mfu/measure.h"

namespace mfu {

// The estimated FLOPs of a step, by how they grow: with the tokens, with the pairs of tokens that
// attend, or with all pairs.
struct FlopTerms {
  double linear = 0, attended = 0, square = 0;
  double total() const { return linear + attended; }
  double attention_share() const { return total() > 0 ? attended / total() : 0; }
};

struct CalibrationPoint {
  std::uint64_t step = 0;
  FlopTerms terms;
  double measured = 0;
  std::optional<double> measured_attention{};
};

// Takes at least one point, oldest first. The newest decides if they disagree.
Calibration calibrate(std::span<const CalibrationPoint> points);

double calibrated_flop(const Calibration& calibration, const FlopTerms& terms);

// Whether a step with these terms is outside what the calibration covers.
bool leaves(const Calibration& calibration, const FlopTerms& terms);

}  // namespace mfu
