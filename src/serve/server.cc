#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>

#include "base/fork.h"
#include "mfu/sink.h"
#include "serve/session.h"

namespace mfu {

namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

// Makes sure that neither a started program nor a forked child keeps a port or a connection.
void keep_from_children(int descriptor) {
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

// Answers without waiting and without reading, so that a refused client costs one system call.
void turn_away(int descriptor) {
  constexpr std::string_view kAnswer =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
      "Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n";
  (void)::send(descriptor, kAnswer.data(), kAnswer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

class BeastServer : public Server {
 public:
  explicit BeastServer(ServeOptions options)
      : state_(std::make_shared<ServeState>()), acceptor_(context_) {
    state_->options = std::move(options);
  }
  ~BeastServer() override {
    context_.stop();
    if (thread_.joinable()) thread_.join();
    if (acceptor_.is_open()) forget_descriptor(acceptor_.native_handle());
  }
  BeastServer(const BeastServer&) = delete;
  BeastServer& operator=(const BeastServer&) = delete;

  std::uint16_t port() const override {
    error_code error;
    return acceptor_.local_endpoint(error).port();
  }

  Result<bool> open() {
    const ServeOptions& options = state_->options;
    error_code error;
    auto address = boost::asio::ip::make_address(
        options.address == "localhost" ? "127.0.0.1" : options.address, error);
    if (error) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} is not an address. Give one of this machine, such as 127.0.0.1",
                              options.address));
    }
    state_->loopback = address.is_loopback();
    if (!state_->loopback && options.token.empty()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} can be reached by others. Give a token that they must show, or "
                              "listen on 127.0.0.1",
                              options.address));
    }
    tcp::endpoint endpoint(address, options.port);
    (void)acceptor_.open(endpoint.protocol(), error);
    if (!error) keep_from_children(acceptor_.native_handle());
    if (!error) (void)acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) (void)acceptor_.bind(endpoint, error);
    if (!error) (void)acceptor_.listen(boost::asio::socket_base::max_listen_connections, error);
    if (error) {
      return fail(ErrorCode::io, fmt::format("cannot listen on {} port {}: {}; try another port",
                                             options.address, options.port, error.message()));
    }
    return true;
  }

  void run() {
    close_in_children(acceptor_.native_handle());
    accept();
    thread_ = quiet_thread([this] { context_.run(); });
  }

 private:
  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!error) {
        keep_from_children(socket.native_handle());
        if (has_room(*state_, socket.native_handle())) {
          begin_session(std::move(socket), state_);
        } else {
          turn_away(socket.native_handle());
        }
        return accept();
      }
      // For example, no file descriptors are left. Asking again at once would only waste time.
      pause_.expires_after(std::chrono::milliseconds(100));
      pause_.async_wait([this](error_code stopped) {
        if (!stopped) accept();
      });
    });
  }

  std::shared_ptr<ServeState> state_;
  boost::asio::io_context context_{1};
  tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_{context_};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(ServeOptions options) {
  auto server = std::make_unique<BeastServer>(std::move(options));
  MFU_TRY(server->open());
  server->run();
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace mfu
