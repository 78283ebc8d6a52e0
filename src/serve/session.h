// One connection: it answers requests one after another, or sends a stream of events. It ends when
// the peer leaves or is silent for too long, or when the server stops.
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

// Whether one more connection may be accepted, decided before anything is read from it: there must
// be fewer than options.connections_most, and the program must have descriptors left. `descriptor`
// is the lowest that was free.
bool has_room(const ServeState& state, int descriptor);

// Runs on the socket's executor. The session keeps itself alive while it has work to do.
void begin_session(boost::asio::ip::tcp::socket socket, std::shared_ptr<ServeState> state);

}  // namespace mfu
