#include "trace/layout.h"

#include <cstring>

namespace mfu {

void Layouts::forget() {
  gaps_.clear();
  gaps_.reserve(kMostGaps);
  gaps_.emplace_back();
}

void Layouts::learn(const char* at, const char* value, bool args, Key key) {
  if (here_ == kLost) return;
  auto size = static_cast<std::size_t>(value - at);
  bool fits = size > 0 && size <= sizeof(Gap::text);
  // A file whose keys have no order would fill any table, so it starts again.
  if (fits && gaps_.size() == kMostGaps) {
    forget();
    fits = false;
  }
  if (!fits) {
    here_ = kLost;
    return;
  }
  Gap gap;
  std::memcpy(gap.text.data(), at, size);
  gap.size = static_cast<std::uint8_t>(size);
  gap.args = args;
  gap.key = key;
  gap.next = gaps_[here_].first;
  auto row = static_cast<std::uint16_t>(gaps_.size());
  gaps_[here_].first = row;
  gaps_.push_back(gap);
  here_ = row;
}

}  // namespace mfu
