#include "mfu/units.h"

namespace mfu {

namespace {

class SystemClock : public Clock {
 public:
  std::chrono::nanoseconds now() const override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
  std::chrono::nanoseconds since_1970() const override {
    return std::chrono::system_clock::now().time_since_epoch();
  }
};

}  // namespace

const Clock& Clock::system() {
  static const SystemClock kClock;
  return kClock;
}

}  // namespace mfu
