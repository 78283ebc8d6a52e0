// One HTTP POST, by libcurl opened at run time: a machine without it only lacks the sinks that
// send.
#pragma once

#include <string>
#include <vector>

#include "mfu/result.h"

namespace mfu {

// `unsupported` where libcurl is not there; the Debian package is named.
Result<void> require_http();

struct HttpPost {
  std::string url;
  std::vector<std::string> headers;
  std::string body;
  double patience_s = 10;
};
// `io` where nobody answers in time, or the answer is not 2xx (with its first bytes).
Result<void> post(const HttpPost& request);

}  // namespace mfu
