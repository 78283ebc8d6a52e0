// What stands between two values of an event, `, "ts": ` say, is nearly always what stood there in
// an event before. Kept as a tree of what followed what, it is compared at once instead of being
// taken apart again. Only gaps that were read the long way get in, and they are compared to the
// last byte: a gap that is found means what it meant then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/event.h"
#include "trace/scan.h"

namespace mfu {

class Layouts {
 public:
  struct Gap {
    std::array<char, 48> text{};  // from after a value, or after '{', to the next value
    std::uint8_t size = 0;
    bool args = false;  // between members of "args", not of the event
    Key key = Key::count;
    std::uint16_t first = 0, next = 0;  // what followed it; what else followed the one before it
  };

  Layouts() { forget(); }

  // At the beginning of an event.
  void restart() { here_ = 0; }

  // The gap that begins at `at`, where it is known to come after what was read of this event so
  // far.
  const Gap* follow(const char* at, const char* end, bool args) {
    constexpr int kMostTries = 6;
    if (here_ == kLost || end - at <= static_cast<std::ptrdiff_t>(sizeof(Gap::text))) {
      return nullptr;
    }
    std::uint16_t* link = &gaps_[here_].first;
    for (int tries = 0; *link != 0 && tries < kMostTries; ++tries) {
      Gap& gap = gaps_[*link];
      // More space than there was then is a gap of its own.
      if (gap.args == args && same_bytes(at, gap.text.data(), gap.size) &&
          !is_space(at[gap.size])) {
        std::uint16_t found = *link;
        if (tries > 0) {  // the last seen is the first tried
          *link = gap.next;
          gap.next = gaps_[here_].first;
          gaps_[here_].first = found;
        }
        here_ = found;
        return &gap;
      }
      link = &gap.next;
    }
    return nullptr;
  }

  // A gap that was read the long way, from `at` to where the value begins.
  void learn(const char* at, const char* value, bool args, Key key);
  // What was read now is not to be remembered: the rest of this event is read the long way.
  void lose() { here_ = kLost; }

 private:
  static constexpr std::uint16_t kLost = UINT16_MAX;  // in an event that was not met before
  static constexpr std::size_t kMostGaps = 1024;
  void forget();

  std::vector<Gap> gaps_;  // the first is none: the beginning of an event
  std::uint16_t here_ = 0;
};

}  // namespace mfu
