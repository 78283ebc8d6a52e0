// The text between two values of an event, such as `, "ts": `, is nearly always the same as in an
// earlier event. These gaps are kept as a tree of what followed what, so that a gap is compared at
// once instead of being parsed again. Only gaps that were parsed once are added, and they are
// compared to the last byte, so a gap that is found has the same meaning.
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
    // what followed it, and what else followed the one before it
    std::uint16_t first = 0, next = 0;
  };

  Layouts() { forget(); }

  // Called at the beginning of an event.
  void restart() { here_ = 0; }

  // The gap at `at`, if it is known to follow what was read of this event so far.
  const Gap* follow(const char* at, const char* end, bool args) {
    constexpr int kMostTries = 6;
    if (here_ == kLost || end - at <= static_cast<std::ptrdiff_t>(sizeof(Gap::text))) {
      return nullptr;
    }
    std::uint16_t* link = &gaps_[here_].first;
    for (int tries = 0; *link != 0 && tries < kMostTries; ++tries) {
      Gap& gap = gaps_[*link];
      // If there is more space than before, it is another gap.
      if (gap.args == args && same_bytes(at, gap.text.data(), gap.size) &&
          !is_space(at[gap.size])) {
        std::uint16_t found = *link;
        if (tries > 0) {  // the last one found is tried first
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

  // Adds a gap that was parsed, from `at` to where the value begins.
  void learn(const char* at, const char* value, bool args, Key key);
  // What was just read must not be remembered: the rest of this event is parsed.
  void lose() { here_ = kLost; }

 private:
  static constexpr std::uint16_t kLost = UINT16_MAX;  // in an event that is new
  static constexpr std::size_t kMostGaps = 1024;
  void forget();

  std::vector<Gap> gaps_;  // the first one is the beginning of an event
  std::uint16_t here_ = 0;
};

}  // namespace mfu
