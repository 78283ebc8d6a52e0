#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "mfu/serve.h"

namespace mfu {
namespace {

// A peer that says exactly these bytes and reads until the other side closes or `until` is there.
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
