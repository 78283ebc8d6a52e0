#include "mfu/result.h"

namespace mfu {

std::string_view name_of(ErrorCode code) {
  constexpr std::string_view kNames[] = {"invalid_argument", "not_found", "malformed",
                                         "unsupported", "io"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(ErrorCode::io) + 1);
  return kNames[static_cast<std::size_t>(code)];
}

}  // namespace mfu
