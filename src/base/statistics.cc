#include "mfu/units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace mfu {

namespace {

constexpr std::size_t kBatches = 10;

// The 97.5% quantile of Student's t for 1 to 30 degrees of freedom. The last one is used for more
// degrees too, which makes ranges a little too wide.
constexpr std::array<double, 30> kStudent = {
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};

double student(double degrees) {
  double whole = std::clamp(std::floor(degrees), 1.0, static_cast<double>(kStudent.size()));
  return kStudent[static_cast<std::size_t>(whole) - 1];
}

double sum_of(std::span<const double> values) {
  double sum = 0;
  for (double each : values) sum += each;
  return sum;
}

// `value` with the error that follows from the spread of the batches' values.
Estimate with_batches(double value, const std::vector<double>& batches) {
  Estimate estimate{.value = value};
  if (batches.size() < 2) return estimate;
  double count = static_cast<double>(batches.size());
  double middle = sum_of(batches) / count, squares = 0;
  for (double each : batches) squares += (each - middle) * (each - middle);
  estimate.error = std::sqrt(squares / (count - 1) / count);
  estimate.degrees = batches.size() - 1;
  return estimate;
}

// The error of a sum: squares add up; degrees of freedom after Welch and Satterthwaite.
struct JoinedError {
  double error = 0, degrees = 1;
};
JoinedError joined(double a, std::size_t degrees_a, double b, std::size_t degrees_b) {
  double square = a * a + b * b;
  double below = std::pow(a, 4) / static_cast<double>(degrees_a) +
                 std::pow(b, 4) / static_cast<double>(degrees_b);
  double fewest = static_cast<double>(std::min(degrees_a, degrees_b));
  return {std::sqrt(square), below > 0 ? square * square / below : fewest};
}

}  // namespace

Estimate mean_of(std::span<const double> values) {
  std::vector<double> ones(values.size(), 1.0);
  return ratio_of_sums(values, ones);
}

Estimate ratio_of_sums(std::span<const double> numerators, std::span<const double> denominators) {
  std::size_t count = numerators.size();
  std::size_t batches = count / std::max<std::size_t>(1, count / kBatches);
  std::vector<double> each;
  for (std::size_t i = 0; i < batches; ++i) {
    std::size_t begin = i * count / batches, size = (i + 1) * count / batches - begin;
    double below = sum_of(denominators.subspan(begin, size));
    if (below > 0) each.push_back(sum_of(numerators.subspan(begin, size)) / below);
  }
  return with_batches(sum_of(numerators) / sum_of(denominators), each);
}

std::optional<Range> range_of(const Estimate& estimate) {
  if (!estimate.error) return std::nullopt;
  double reach = *estimate.error * student(static_cast<double>(estimate.degrees));
  return Range{estimate.value - reach, estimate.value + reach};
}

Quotient quotient_of(const Estimate& a, const Estimate& b) {
  Quotient quotient{.value = a.value / b.value};
  if (!a.error || !b.error) return quotient;
  JoinedError error = joined(*a.error / a.value, a.degrees, *b.error / b.value, b.degrees);
  double factor = std::exp(error.error * student(error.degrees));
  quotient.range = Range{quotient.value / factor, quotient.value * factor};
  return quotient;
}

std::optional<bool> differs(const Estimate& a, const Estimate& b) {
  if (!a.error || !b.error) return std::nullopt;
  JoinedError error = joined(*a.error, a.degrees, *b.error, b.degrees);
  return std::fabs(a.value - b.value) > error.error * student(error.degrees);
}

}  // namespace mfu
