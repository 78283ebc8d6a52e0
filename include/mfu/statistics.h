// A number that was measured again and again, and how far it can be trusted. Built once: everything
// that says "± so much" asks here.
//
// Values that follow one another in time are not independent (clocks, caches and neighbours change
// slowly), so the error is taken from the means of ten stretches of the series ("batch means", Law:
// Simulation Modeling, 9.5.3), not from single values: slow drift makes it larger, as it should.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace mfu {

struct Estimate {
  double value = 0;
  std::optional<double> error{};  // standard error of `value`; none: it was measured once
  std::size_t degrees = 0;        // of freedom of the error
};

// Contract: not empty.
Estimate mean_of(std::span<const double> values);

// Σ numerators / Σ denominators. Contract: as many of both, not empty, Σ denominators above 0.
Estimate ratio_of_sums(std::span<const double> numerators, std::span<const double> denominators);

// Where the true value lies with 95% confidence (Student's t).
struct Range {
  double low = 0, high = 0;
};
std::optional<Range> range_of(const Estimate& estimate);

// a / b with its range, which is taken from the logarithm: so b / a has the inverse of it. The
// range is none where one of the errors is unknown. Contract: both values above 0.
struct Quotient {
  double value = 1;
  std::optional<Range> range{};
};
Quotient quotient_of(const Estimate& a, const Estimate& b);

// The values differ by more than 95% of what noise alone would make. Where an error is unknown, so
// is the answer.
std::optional<bool> differs(const Estimate& a, const Estimate& b);

}  // namespace mfu
