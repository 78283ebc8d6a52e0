// Time as a parameter: whoever measures takes a Clock&, so that tests move it by hand.
//
//   mfu::FakeClock clock;
//   clock.advance(std::chrono::milliseconds(250));
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace mfu {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic, from an arbitrary start. Callable from every thread.
  virtual std::chrono::nanoseconds now() const = 0;
  // Time of day, since 1970 UTC.
  virtual std::chrono::nanoseconds since_1970() const = 0;

  // The machine's.
  static const Clock& system();
};

// Stands still until it is told otherwise.
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
