// One connection: requests one after another, or a stream of events, until the peer leaves, is
// silent for too long or the server stops.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "mfu/serve.h"

namespace mfu {

struct ServeState {
  ServeOptions options;
  bool loopback = true;
  std::atomic<std::size_t> connections = 0;
};

// Runs on the socket's executor; keeps itself alive while something is under way.
void begin_session(boost::asio::ip::tcp::socket socket, std::shared_ptr<ServeState> state);

}  // namespace mfu
