#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "mfu/sink.h"

namespace mfu {
namespace {

// A client that sends exactly these bytes and reads until the server closes or `until` has arrived.
std::string ask(std::uint16_t port, const std::string& bytes, const std::string& until = {}) {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  timeval patience{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string answer;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::recv(fd, buffer, sizeof buffer, 0)) > 0) {
      answer.append(buffer, static_cast<std::size_t>(got));
      if (!until.empty() && answer.find(until) != std::string::npos) break;
    }
  }
  ::close(fd);
  return answer;
}

std::string get(std::uint16_t port, const std::string& target, const std::string& extra = {}) {
  return ask(port, "GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" +
                       extra + "\r\n");
}

std::unique_ptr<Server> serving(ServeOptions options = {}) {
  if (!options.answer) {
    options.answer = [](const WebRequest& request) {
      return request.path == "/metrics" ? WebAnswer{.body = "up 1\n"} : WebAnswer::not_found();
    };
  }
  Result<std::unique_ptr<Server>> server = Server::listen(std::move(options));
  EXPECT_TRUE(server.has_value());
  return std::move(server.value());
}

TEST(Server, answers_a_request_and_says_what_is_not_there) {
  auto server = serving();
  std::string answer = get(server->port(), "/metrics");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nup 1\n")) << answer;
  EXPECT_TRUE(get(server->port(), "/nothing").starts_with("HTTP/1.1 404"));
}

TEST(Server, gives_the_head_alone_when_asked) {
  auto server = serving();
  std::string answer =
      ask(server->port(), "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_NE(answer.find("Content-Length: 5\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

TEST(Server, answers_two_requests_on_one_connection) {
  auto server = serving();
  std::string one = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::string answer =
      ask(server->port(),
          one + "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_NE(answer.find("up 1\n", answer.find("up 1\n") + 1), std::string::npos) << answer;
}

TEST(Server, turns_away_a_page_of_another_site) {
  auto server = serving();
  EXPECT_TRUE(ask(server->port(),
                  "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
                  .starts_with("HTTP/1.1 421"));
  EXPECT_TRUE(ask(server->port(),
                  "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n"
                  "Connection: close\r\n\r\n")
                  .starts_with("HTTP/1.1 421"));
  EXPECT_TRUE(ask(server->port(), "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")
                  .starts_with("HTTP/1.1 421"));
}

TEST(Server, wants_the_token_it_was_given) {
  auto server = serving({.token = "s3cret"});
  EXPECT_TRUE(get(server->port(), "/metrics").starts_with("HTTP/1.1 401"));
  EXPECT_TRUE(get(server->port(), "/metrics?token=wrong").starts_with("HTTP/1.1 401"));
  EXPECT_TRUE(get(server->port(), "/metrics?token=s3cret").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(get(server->port(), "/metrics", "Authorization: Bearer s3cret\r\n")
                  .starts_with("HTTP/1.1 200"));
}

TEST(Server, does_not_listen_beyond_loopback_without_a_token) {
  Result<std::unique_ptr<Server>> server = Server::listen({.address = "0.0.0.0"});
  ASSERT_FALSE(server.has_value());
  EXPECT_EQ(server.error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(Server::listen({.address = "no address"}).has_value());
}

TEST(Server, says_that_a_port_is_taken) {
  auto server = serving();
  Result<std::unique_ptr<Server>> second = Server::listen({.port = server->port()});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::io);
}

TEST(Server, survives_what_is_no_request) {
  auto server = serving();
  for (const std::string& bytes :
       {std::string("\0\0\0", 3), std::string("GET\r\n\r\n"),
        "GET / HTTP/9\r\n\r\n" + std::string(),
        std::string("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n123456789"),
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(100000, 'x') + "\r\n\r\n",
        std::string("GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        std::string("DELETE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")}) {
    std::string answer = ask(server->port(), bytes);
    EXPECT_FALSE(answer.starts_with("HTTP/1.1 200")) << answer;
  }
  EXPECT_TRUE(get(server->port(), "/metrics").starts_with("HTTP/1.1 200"));
}

int connected(std::uint16_t port) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

std::size_t open_descriptors(pid_t process) {
  std::size_t count = 0;
  std::string folder = "/proc/" + std::to_string(process) + "/fd";
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

// A server in its own process, with a limit on open files. It ends when `stop` is closed.
struct Elsewhere {
  explicit Elsewhere(rlim_t files, std::size_t taken = 0) {
    int ports[2], stops[2];
    EXPECT_EQ(::pipe(ports), 0);
    EXPECT_EQ(::pipe(stops), 0);
    process = ::fork();
    if (process == 0) {
      ::close(stops[1]);
      rlimit limit{.rlim_cur = files, .rlim_max = files};
      ::setrlimit(RLIMIT_NOFILE, &limit);
      for (std::size_t i = 0; i < taken; ++i) (void)::dup(0);
      auto server = serving();
      port = server->port();
      (void)!::write(ports[1], &port, sizeof port);
      char end = 0;
      (void)!::read(stops[0], &end, 1);
      ::_exit(0);
    }
    ::close(stops[0]);
    stop = stops[1];
    EXPECT_EQ(::read(ports[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    ::close(ports[0]);
    ::close(ports[1]);
  }
  ~Elsewhere() {
    ::close(stop);
    ::waitpid(process, nullptr, 0);
  }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;
  pid_t process = -1;
  int stop = -1;
  std::uint16_t port = 0;
};

TEST(Server, half_sent_requests_leave_the_program_its_descriptors) {
  Elsewhere server(1024);
  std::size_t before = open_descriptors(server.process);
  std::vector<int> peers;
  for (int i = 0; i < 900; ++i) {
    int fd = connected(server.port);
    if (fd < 0) continue;
    (void)::send(fd, "GET /metr", 9, MSG_NOSIGNAL);
    peers.push_back(fd);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LE(open_descriptors(server.process), before + 64 + 1);
  std::string answer = get(server.port, "/metrics");
  EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 503")) << answer;
  for (int fd : peers) ::close(fd);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(get(server.port, "/metrics").starts_with("HTTP/1.1 200"));
}

TEST(Server, takes_no_connection_where_the_program_has_few_descriptors_left) {
  Elsewhere server(128, 64);
  std::size_t before = open_descriptors(server.process);
  int fd = connected(server.port);
  ASSERT_GE(fd, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(open_descriptors(server.process), before);
  ::close(fd);
}

TEST(Server, a_forked_child_keeps_neither_the_port_nor_a_connection) {
  auto server = serving();
  std::uint16_t port = server->port();
  int peer = connected(port);
  ASSERT_GE(peer, 0);
  (void)get(port, "/metrics");  // the server has accepted both
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  pid_t child = ::fork();
  if (child == 0) {
    char end = 0;
    ::close(ends[1]);
    // until the test closes its end of the pipe
    ::_exit(static_cast<int>(::read(ends[0], &end, 1)));
  }
  server.reset();
  timeval patience{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char byte = 0;
  EXPECT_EQ(::recv(peer, &byte, 1, 0), 0);  // the server closes at once
  EXPECT_TRUE(Server::listen({.port = port}).has_value());
  ::close(ends[1]);
  ::close(ends[0]);
  ::close(peer);
  ::waitpid(child, nullptr, 0);
}

TEST(Server, streams_events_in_order_and_goes_on_where_a_listener_left) {
  ServeOptions options;
  options.event_period = std::chrono::milliseconds(1);
  options.next_event = [](std::uint64_t last) -> std::optional<ServeOptions::Event> {
    if (last >= 3) return std::nullopt;
    return ServeOptions::Event{.number = last + 1, .data = "step " + std::to_string(last + 1)};
  };
  auto server = serving(std::move(options));
  std::string events =
      ask(server->port(), "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n", "step 3\n\n");
  EXPECT_NE(events.find("id: 1\ndata: step 1\n\nid: 2\ndata: step 2\n\n"), std::string::npos);
  events = ask(server->port(),
               "GET /events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 2\r\n\r\n", "step 3\n\n");
  EXPECT_EQ(events.find("step 2"), std::string::npos);
}

TEST(Server, serves_many_at_once_and_stops_with_listeners_on) {
  ServeOptions options;
  options.next_event = [](std::uint64_t) { return std::nullopt; };
  std::atomic<int> good = 0;
  std::thread listener;
  {
    auto server = serving(std::move(options));
    std::uint16_t port = server->port();
    listener =
        std::thread([port] { ask(port, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"); });
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([port, &good] {
        for (int n = 0; n < 20; ++n) good += get(port, "/metrics").starts_with("HTTP/1.1 200");
      });
    }
    for (std::thread& client : clients) client.join();
  }
  listener.join();
  EXPECT_EQ(good, 160);
}

}  // namespace
}  // namespace mfu
