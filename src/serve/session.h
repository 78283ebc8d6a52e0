// One connection: requests one after another, or a stream of events, until the peer leaves, is
// silent for too long or the server stops.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "mfu/sink.h"

namespace mfu {

struct ServeState {
  ServeOptions options;
  bool loopback = true;
  std::atomic<std::size_t> connections = 0;
};

// Whether one more may be taken, before anything is read from it: within options.connections_most,
// and with descriptors left to the program. `descriptor` is the lowest that was free.
bool has_room(const ServeState& state, int descriptor);

// Runs on the socket's executor; keeps itself alive while something is under way.
void begin_session(boost::asio::ip::tcp::socket socket, std::shared_ptr<ServeState> state);

}  // namespace mfu
