#include "mfu/units.h"

#include <algorithm>

namespace mfu {

std::string FlopCount::to_string() const {
  std::string digits;
  Uint128 rest = count_;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace mfu
