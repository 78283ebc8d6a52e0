// Fetches one small page over plain HTTP, from a program on this machine or near it.
#pragma once

#include <chrono>
#include <string>

#include "mfu/result.h"

namespace mfu {

// Returns the body of a 200 answer, at most 16 MB. Fails with `invalid_argument` if the address is
// not http://HOST[:PORT][/PATH], and with `io` and the reason otherwise. It takes no longer than
// `patience`, plus the time to look the name up.
Result<std::string> http_get(const std::string& url, std::chrono::milliseconds patience);

}  // namespace mfu
