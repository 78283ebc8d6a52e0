// The newest step over HTTP, for Prometheus to fetch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mfu/sink.h"

namespace mfu {

struct MetricsAddress {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
};

// ":9464", "127.0.0.1:9464", "[::1]:9464", "localhost:9464": none where it is a path. A port alone
// is on loopback.
std::optional<MetricsAddress> parse_metrics_address(std::string_view text);

// An address whose port is none (":99999", "localhost:0"), and not a path that happens to hold a
// colon: those have a slash, or something else than digits behind it.
bool is_wrong_metrics_address(std::string_view text);

// Ranks of one machine listen on ports of their own: the given one, and as many more as their local
// rank says (LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID).
std::uint16_t local_rank_port(std::uint16_t port);

// Listens from the first step on, on a thread of its own; /metrics has the newest. Beyond loopback
// a request needs the token.
std::unique_ptr<Sink> make_metrics_endpoint(MetricsAddress at, std::string token);

}  // namespace mfu
