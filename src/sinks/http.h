// HTTP requests by libcurl, opened at run time: a machine without it only lacks the sinks that
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
struct Posted {
  Result<void> result;  // `io`: nobody answered in time, or not with 2xx (with its first bytes)
  // It failed after it was sent: whoever got it may have taken it, and a second one doubles it.
  bool perhaps_taken = false;
};
Posted post(const HttpPost& request);

// The body of a page of at most 64 MiB; fails as post() does.
Result<std::string> fetch(const std::string& url, const std::vector<std::string>& headers,
                          double patience_s);
// For a query: "perf/mfu" becomes "perf%2Fmfu".
std::string percent_encoded(std::string_view text);

}  // namespace mfu
