// A sink that serves the newest step over HTTP, for Prometheus.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mfu/sink.h"

namespace mfu {

using MetricsAddress = ListenAddress;

// Reads ":9464", "127.0.0.1:9464", "[::1]:9464" or "localhost:9464". A port alone means loopback.
// None if it is a path.
std::optional<MetricsAddress> parse_metrics_address(std::string_view text);

// Whether it is an address with an impossible port (":99999", "localhost:0"). A path with a colon
// is not one: it has a slash, or something other than digits after the colon.
bool is_wrong_metrics_address(std::string_view text);

// Listens from the first step on, on its own thread; /metrics has the newest step. On an address
// other than loopback, a request needs the token.
std::unique_ptr<Sink> make_metrics_endpoint(MetricsAddress at, std::string token);

}  // namespace mfu
