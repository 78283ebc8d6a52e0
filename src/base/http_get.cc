#include "base/http_get.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace mfu {

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::size_t kMostBytes = 16u << 20;

struct Address {
  std::string host, port = "80", path = "/";
};

Result<Address> parse(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: give an address such as http://localhost:9400/metrics", url));
  }
  Address address;
  std::string rest = url.substr(kScheme.size());
  std::size_t slash = std::min(rest.find('/'), rest.size());
  if (slash < rest.size()) address.path = rest.substr(slash);
  std::string place = rest.substr(0, slash);
  std::size_t colon = place.rfind(':');
  bool bracketed = place.starts_with('[') && place.find(']') != std::string::npos;
  if (bracketed && colon < place.find(']')) colon = std::string::npos;
  if (colon != std::string::npos) address.port = place.substr(colon + 1);
  address.host = place.substr(0, colon);
  if (bracketed) address.host = address.host.substr(1, address.host.find(']') - 1);
  bool printable = address.path.find_first_of(" \r\n") == std::string::npos;
  if (address.host.empty() || address.port.empty() || !printable) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: no address", url));
  }
  return address;
}

class Connection {
 public:
  Connection(int socket, SteadyClock::time_point ends) : socket_(socket), ends_(ends) {}
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Whether the connection became ready for these events in time.
  bool wait(short events) const {
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(ends_ - SteadyClock::now()).count();
    pollfd watched{.fd = socket_, .events = events, .revents = 0};
    return left > 0 && ::poll(&watched, 1, static_cast<int>(left)) == 1;
  }
  bool connect(const addrinfo& to) const {
    if (::connect(socket_, to.ai_addr, to.ai_addrlen) == 0) return true;
    if (errno != EINPROGRESS || !wait(POLLOUT)) return false;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    return error == 0;
  }
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0 && (errno != EAGAIN || !wait(POLLOUT))) return false;
    }
    return true;
  }
  // Receives until the other side closes. False if that took too long or was too much.
  bool receive(std::string& to) const {
    char part[16384];
    while (to.size() < kMostBytes) {
      ssize_t got = ::recv(socket_, part, sizeof part, 0);
      if (got == 0) return true;
      if (got > 0) to.append(part, static_cast<std::size_t>(got));
      if (got < 0 && (errno != EAGAIN || !wait(POLLIN))) return false;
    }
    return false;
  }

 private:
  int socket_;
  SteadyClock::time_point ends_;
};

Result<std::string> body_of(const std::string& answer, const std::string& url) {
  std::size_t end = answer.find("\r\n\r\n");
  std::size_t blank = answer.find(' ');
  if (!answer.starts_with("HTTP/") || end == std::string::npos || blank > end) {
    return fail(ErrorCode::io, fmt::format("{} does not answer in HTTP", url));
  }
  std::string status = answer.substr(blank + 1, 3);
  if (status != "200") return fail(ErrorCode::io, fmt::format("{} answers {}", url, status));
  return answer.substr(end + 4);
}

}  // namespace

Result<std::string> http_get(const std::string& url, std::chrono::milliseconds patience) {
  Address address = MFU_TRY(parse(url));
  SteadyClock::time_point ends = SteadyClock::now() + patience;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (int error = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
      error != 0) {
    return fail(ErrorCode::io, fmt::format("{}: {}", url, ::gai_strerror(error)));
  }
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  std::string why = "no address";
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    int socket = ::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    Connection connection(socket, ends);
    if (!connection.connect(*each)) {
      why = errno == EINPROGRESS ? "no answer in time" : std::strerror(errno);
      continue;
    }
    // With HTTP 1.0 the answer is not chunked and ends when the connection does.
    std::string answer,
        request = fmt::format(
            "GET {} HTTP/1.0\r\nHost: {}:{}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n",
            address.path, address.host, address.port);
    if (connection.send(request) && connection.receive(answer)) return body_of(answer, url);
    why = answer.size() >= kMostBytes ? "too long an answer" : "no whole answer in time";
  }
  return fail(ErrorCode::io, fmt::format("{}: {}", url, why));
}

}  // namespace mfu
