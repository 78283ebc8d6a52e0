// When a ceiling was measured.
#pragma once

#include <string>

namespace mfu {

std::string utc_now();  // ISO 8601, whole seconds

}  // namespace mfu
