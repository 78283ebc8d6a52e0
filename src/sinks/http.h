// HTTP requests through libcurl, which is opened at run time. A machine without it only lacks the
// sinks that send.
#pragma once

#include <string>
#include <vector>

#include "mfu/result.h"

namespace mfu {

// Fails with `unsupported` if libcurl is missing, and names the Debian package.
Result<void> require_http();

struct HttpPost {
  std::string url;
  std::vector<std::string> headers;
  std::string body;
  double patience_s = 10;
};
struct Posted {
  // `io`: no answer in time, or a status other than 2xx (with the first bytes of the answer)
  Result<void> result;
  // The request failed after it was sent. The receiver may have taken it, and sending it again
  // would double it.
  bool perhaps_taken = false;
};
Posted post(const HttpPost& request);

// The body of a page of at most 64 MiB. Fails as post() does.
Result<std::string> fetch(const std::string& url, const std::vector<std::string>& headers,
                          double patience_s);
// Encodes text for a query: "perf/mfu" becomes "perf%2Fmfu".
std::string percent_encoded(std::string_view text);

}  // namespace mfu
