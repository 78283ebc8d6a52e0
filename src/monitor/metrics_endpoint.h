// The newest step over HTTP, for Prometheus to fetch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mfu/sink.h"

namespace mfu {

using MetricsAddress = ListenAddress;

// ":9464", "127.0.0.1:9464", "[::1]:9464", "localhost:9464": none where it is a path. A port alone
// is on loopback.
std::optional<MetricsAddress> parse_metrics_address(std::string_view text);

// An address whose port is none (":99999", "localhost:0"), and not a path that happens to hold a
// colon: those have a slash, or something else than digits behind it.
bool is_wrong_metrics_address(std::string_view text);

// Listens from the first step on, on a thread of its own; /metrics has the newest. Beyond loopback
// a request needs the token.
std::unique_ptr<Sink> make_metrics_endpoint(MetricsAddress at, std::string token);

}  // namespace mfu
