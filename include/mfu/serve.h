// Hands what others worked out over HTTP: pages, JSON, Prometheus text, a stream of events. Listens
// on loopback unless told otherwise; answers only requests that name it as their host, and beyond
// loopback only those that carry the token. Reads GET and HEAD, nothing with a body.
//
//   auto server = mfu::Server::listen({.port = 9464, .answer = [](const mfu::WebRequest& request) {
//     return request.path == "/metrics" ? mfu::WebAnswer{.body = text} :
//     mfu::WebAnswer::not_found();
//   }});
//   server.value()->port();
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "mfu/result.h"

namespace mfu {

struct WebRequest {
  std::string path;   // "/metrics", percent-decoded, without the query
  std::string query;  // what follows '?', as sent
};

struct WebAnswer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;

  static WebAnswer not_found() { return {.status = 404, .body = "not found\n"}; }
};

struct ServeOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: a free one
  // Beyond loopback every request needs it: `Authorization: Bearer TOKEN` or `?token=TOKEN`. Empty
  // there: listen() fails and says so.
  std::string token{};
  // Called on the server's thread for each request. It must not block for long.
  std::function<WebAnswer(const WebRequest&)> answer{};
  // `/events` is a stream of server-sent events: called once a period for each listener with the
  // number of the last event it got (0: none); gives the next one, or none.
  struct Event {
    std::uint64_t number = 0;
    std::string data;  // one line
  };
  std::function<std::optional<Event>(std::uint64_t last)> next_event{};
  std::chrono::milliseconds event_period{1000};
  std::size_t connections_most = 64;  // more are turned away with 503
};

class Server {
 public:
  // Binds and begins to answer on a thread of its own. `io` where the address is taken or not ours,
  // `invalid_argument` for an address that is none, or one beyond loopback without a token.
  static Result<std::unique_ptr<Server>> listen(ServeOptions options);
  virtual ~Server() = default;  // stops, closing every connection
  virtual std::uint16_t port() const = 0;
};

}  // namespace mfu
