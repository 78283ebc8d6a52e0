// One small page over plain HTTP: for programs that answer on this machine or beside it.
#pragma once

#include <chrono>
#include <string>

#include "mfu/result.h"

namespace mfu {

// The body of a 200 answer, at most 16 MB. `invalid_argument` for an address that is no
// http://HOST[:PORT][/PATH], `io` with the reason for everything else; never longer than
// `patience`, but for the look-up of the name.
Result<std::string> http_get(const std::string& url, std::chrono::milliseconds patience);

}  // namespace mfu
