// Quantities whose unit is part of their type: counts are integers, rates are per second, ratios
// are fractions of 1. An Estimate is a number that was measured several times, with its error. Code
// that needs the time takes a Clock&, so that tests can set it. Nothing here knows a device or a
// model.
//
//   mfu::FlopCount step = mfu::FlopCount(6) * 8'030'261'248u * 4096u;
//   mfu::FlopRate rate = step / std::chrono::seconds(1);
//   mfu::Fraction share = rate / mfu::FlopRate{989.4e12};
//   mfu::Estimate mean = mfu::mean_of(std::vector<double>{9.9, 10.1, 10.0});
//   std::optional<mfu::Range> range = mfu::range_of(mean);  // with 95% confidence
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mfu {

__extension__ using Uint128 = unsigned __int128;

struct Fraction {
  double value = 0;  // 1 is the whole
  auto operator<=>(const Fraction&) const = default;
};

struct FlopRate {
  double per_s = 0;
  auto operator<=>(const FlopRate&) const = default;
};

struct ByteRate {
  double per_s = 0;
  auto operator<=>(const ByteRate&) const = default;
};

struct Bytes {
  std::uint64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
};

// A number of floating-point operations; a multiply-add counts as two. It has 128 bits, because
// pre-training a 405B model takes 3.8e25. Arithmetic saturates instead of wrapping around;
// saturated() says whether it did.
class FlopCount {
 public:
  constexpr FlopCount() = default;
  constexpr FlopCount(std::uint64_t count) : count_(count) {}
  static constexpr FlopCount from_halves(std::uint64_t high, std::uint64_t low) {
    return FlopCount((static_cast<Uint128>(high) << 64) | low, Raw{});
  }
  static constexpr FlopCount from_wide(Uint128 count) { return FlopCount(count, Raw{}); }

  constexpr std::uint64_t high() const { return static_cast<std::uint64_t>(count_ >> 64); }
  constexpr std::uint64_t low() const { return static_cast<std::uint64_t>(count_); }
  constexpr Uint128 wide() const { return count_; }
  constexpr bool saturated() const { return count_ == kMost; }
  constexpr double to_double() const { return static_cast<double>(count_); }
  std::string to_string() const;  // plain decimal digits

  friend constexpr FlopCount operator+(FlopCount a, FlopCount b) {
    Uint128 sum = a.count_ + b.count_;
    return FlopCount(sum < a.count_ ? kMost : sum, Raw{});
  }
  // Contract: b <= a.
  friend constexpr FlopCount operator-(FlopCount a, FlopCount b) {
    return FlopCount(a.count_ - b.count_, Raw{});
  }
  friend constexpr FlopCount operator*(FlopCount a, FlopCount b) {
    if (a.count_ != 0 && b.count_ > kMost / a.count_) return FlopCount(kMost, Raw{});
    return FlopCount(a.count_ * b.count_, Raw{});
  }
  constexpr FlopCount& operator+=(FlopCount other) { return *this = *this + other; }
  constexpr FlopCount& operator*=(FlopCount other) { return *this = *this * other; }
  friend constexpr bool operator==(FlopCount a, FlopCount b) { return a.count_ == b.count_; }
  friend constexpr bool operator<(FlopCount a, FlopCount b) { return a.count_ < b.count_; }
  friend constexpr bool operator>(FlopCount a, FlopCount b) { return b < a; }
  friend constexpr bool operator<=(FlopCount a, FlopCount b) { return !(b < a); }
  friend constexpr bool operator>=(FlopCount a, FlopCount b) { return !(a < b); }

 private:
  struct Raw {};
  constexpr FlopCount(Uint128 count, Raw) : count_(count) {}
  static constexpr Uint128 kMost = ~static_cast<Uint128>(0);
  Uint128 count_ = 0;
};

// Contract: duration > 0.
inline FlopRate operator/(FlopCount work, std::chrono::nanoseconds duration) {
  return {work.to_double() * 1e9 / static_cast<double>(duration.count())};
}
inline ByteRate operator/(Bytes moved, std::chrono::nanoseconds duration) {
  return {static_cast<double>(moved.count) * 1e9 / static_cast<double>(duration.count())};
}
// Contract: the divisor is not zero.
inline Fraction operator/(FlopRate reached, FlopRate peak) {
  return {reached.per_s / peak.per_s};
}
inline Fraction operator/(ByteRate reached, ByteRate peak) {
  return {reached.per_s / peak.per_s};
}

struct Estimate {
  double value = 0;
  std::optional<double> error{};  // standard error of `value`; none if it was measured once
  std::size_t degrees = 0;        // degrees of freedom of the error
};

// Contract: `values` is not empty.
Estimate mean_of(std::span<const double> values);

// Σ numerators / Σ denominators. Contract: both have the same length and are not empty, and the
// denominators add up to more than 0.
Estimate ratio_of_sums(std::span<const double> numerators, std::span<const double> denominators);

// The range that holds the true value with 95% confidence (Student's t). None if the error is
// unknown.
struct Range {
  double low = 0, high = 0;
};
std::optional<Range> range_of(const Estimate& estimate);

// a / b with its range. The range is computed on the logarithm, so that b / a has the inverse
// range. There is no range if one of the errors is unknown. Contract: both values are above 0.
struct Quotient {
  double value = 1;
  std::optional<Range> range{};
};
Quotient quotient_of(const Estimate& a, const Estimate& b);

// Whether the values differ by more than noise alone would explain, with 95% confidence. None if
// one of the errors is unknown.
std::optional<bool> differs(const Estimate& a, const Estimate& b);

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic, from an arbitrary start. Any thread may call it.
  virtual std::chrono::nanoseconds now() const = 0;
  // Time of day, since 1970 UTC.
  virtual std::chrono::nanoseconds since_1970() const = 0;

  // The clock of this machine.
  static const Clock& system();
};

// A clock for tests: it stands still until advance() is called.
class FakeClock : public Clock {
 public:
  std::chrono::nanoseconds now() const override {
    return std::chrono::nanoseconds(now_ns_.load(std::memory_order_relaxed));
  }
  std::chrono::nanoseconds since_1970() const override {
    return now() + std::chrono::hours(24 * 365 * 50);
  }
  void advance(std::chrono::nanoseconds by) {
    now_ns_.fetch_add(by.count(), std::memory_order_relaxed);
  }

 private:
  std::atomic<std::int64_t> now_ns_ = 1'000'000'000;
};

}  // namespace mfu
