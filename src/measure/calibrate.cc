#include "measure/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mfu {

namespace {

// How attention may be executed, relative to the estimate (forward 4, backward 8 per pair and
// dimension): as estimated, or fused, where the backward computes the scores again (10).
constexpr std::array<double, 2> kAttentionFactors = {1.0, 14.0 / 12.0};

double basis(const FlopTerms& terms, bool square) {
  return square ? terms.square : terms.attended;
}

double distance_to_known(double factor) {
  double best = std::abs(factor - kAttentionFactors[0]);
  for (double known : kAttentionFactors) best = std::min(best, std::abs(factor - known));
  return best;
}

// The counter measured attention separately, so each term has its own equation. Either the attended
// pairs ran or the whole square. The right choice keeps the factor the same over all readings; if
// both do, it gives one of the known factors.
Calibration from_split(std::span<const CalibrationPoint> points) {
  const CalibrationPoint& newest = points.back();
  Calibration found{.apart = true};
  found.linear = (newest.measured - *newest.measured_attention) / newest.terms.linear;
  if (newest.terms.attended <= 0) return found;
  std::array<double, 2> spread = {0, 0}, factor = {0, 0};
  for (bool square : {false, true}) {
    factor[square] = *newest.measured_attention / basis(newest.terms, square);
    for (const CalibrationPoint& point : points) {
      if (!point.measured_attention || point.terms.attended <= 0) continue;
      double here = *point.measured_attention / basis(point.terms, square);
      spread[square] = std::max(spread[square], std::abs(here - factor[square]));
    }
  }
  bool told_by_spread = std::abs(spread[0] - spread[1]) > 1e-6;
  found.square = told_by_spread ? spread[1] < spread[0]
                                : distance_to_known(factor[1]) < distance_to_known(factor[0]);
  found.quadratic = factor[found.square];
  return found;
}

// Least squares of measured = x·linear + y·attention over all points, each weighted by 1/measured.
// Empty if the points do not separate the two terms.
struct Fit {
  double linear = 0, quadratic = 0, residual = 0;
};
std::optional<Fit> fit(std::span<const CalibrationPoint> points, bool square) {
  double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
  for (const CalibrationPoint& point : points) {
    double a = point.terms.linear / point.measured, b = basis(point.terms, square) / point.measured;
    aa += a * a, ab += a * b, bb += b * b, a1 += a, b1 += b;
  }
  double determinant = aa * bb - ab * ab;
  if (determinant <= 1e-6 * aa * bb) return std::nullopt;
  Fit found{.linear = (a1 * bb - b1 * ab) / determinant,
            .quadratic = (b1 * aa - a1 * ab) / determinant};
  if (found.linear <= 0 || found.quadratic <= 0) return std::nullopt;
  for (const CalibrationPoint& point : points) {
    double made = found.linear * point.terms.linear + found.quadratic * basis(point.terms, square);
    found.residual = std::max(found.residual, std::abs(made / point.measured - 1));
  }
  return found;
}

std::optional<Calibration> from_many(std::span<const CalibrationPoint> points) {
  std::optional<Calibration> best;
  double residual = 1e-3;  // if it is worse, these two terms do not explain the points
  for (bool square : {false, true}) {
    std::optional<Fit> found = fit(points, square);
    if (!found || found->residual >= residual) continue;
    residual = found->residual;
    best = {
        .linear = found->linear, .quadratic = found->quadratic, .square = square, .apart = true};
  }
  return best;
}

// One number for two unknowns. The estimate's linear terms are exact matrix multiplies, so the
// known ways to run attention are tried. The one that leaves a linear factor of 1 explains the
// reading. Otherwise one factor stands for both until a step of another shape is measured.
Calibration from_one(const CalibrationPoint& point) {
  Calibration found;
  found.linear = found.quadratic = point.measured / point.terms.total();
  double nearest = 1e-4;
  for (bool square : {false, true}) {
    for (double factor : kAttentionFactors) {
      double linear = (point.measured - factor * basis(point.terms, square)) / point.terms.linear;
      if (std::abs(linear - 1) >= nearest) continue;
      nearest = std::abs(linear - 1);
      found = {.linear = linear, .quadratic = factor, .square = square, .apart = true};
    }
  }
  return found;
}

}  // namespace

Calibration calibrate(std::span<const CalibrationPoint> points) {
  MFU_ASSERT(!points.empty());
  Calibration found;
  if (points.back().measured_attention) {
    found = from_split(points);
  } else {
    std::optional<Calibration> many = from_many(points);
    found = many ? *many : from_one(points.back());
  }
  found.step = points.back().step;
  found.readings = static_cast<std::uint32_t>(points.size());
  found.least_share = found.most_share = points.back().terms.attention_share();
  for (const CalibrationPoint& point : points) {
    found.least_share = std::min(found.least_share, point.terms.attention_share());
    found.most_share = std::max(found.most_share, point.terms.attention_share());
  }
  return found;
}

double calibrated_flop(const Calibration& calibration, const FlopTerms& terms) {
  return calibration.linear * terms.linear +
         calibration.quadratic * basis(terms, calibration.square);
}

bool leaves(const Calibration& calibration, const FlopTerms& terms) {
  // If both terms are known, any mixture is covered; only far outside (windows, routing) another
  // measurement is useful. A single factor is only valid for the mixture that it was measured on.
  double slack = calibration.apart ? 8 : 1.02;
  double share = terms.attention_share();
  return share > calibration.most_share * slack || share * slack < calibration.least_share;
}

}  // namespace mfu
