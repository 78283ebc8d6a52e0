#include "monitor/metrics_endpoint.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mfu/monitor.h"

namespace mfu {
namespace {

TEST(MetricsAddress, tells_an_impossible_port_from_a_path) {
  for (const char* wrong : {":99999", ":0", ":", "localhost:65536", "[::1]:70000", ":-1", ":abc",
                            "http://gateway:9091"}) {
    EXPECT_TRUE(is_wrong_metrics_address(wrong)) << wrong;
    EXPECT_FALSE(parse_metrics_address(wrong).has_value()) << wrong;
  }
  for (const char* path : {"mfu.prom", "a/b:99999", "C:x", "run:today", ":9464", ""}) {
    EXPECT_FALSE(is_wrong_metrics_address(path)) << path;
  }
}

TEST(MetricsAddress, is_told_from_a_path) {
  EXPECT_EQ(parse_metrics_address(":9464")->address, "127.0.0.1");
  EXPECT_EQ(parse_metrics_address(":9464")->port, 9464);
  EXPECT_EQ(parse_metrics_address("localhost:80")->address, "127.0.0.1");
  EXPECT_EQ(parse_metrics_address("0.0.0.0:80")->address, "0.0.0.0");
  EXPECT_EQ(parse_metrics_address("[::1]:80")->address, "::1");
  for (const char* path : {"mfu.prom", "/var/lib/mfu.prom", "a:b", ":0", ":65536", ":", "", ":1x",
                           "runs/x:9464", "9464"}) {
    EXPECT_FALSE(parse_metrics_address(path)) << path;
  }
}

TEST(MetricsAddress, ranks_of_a_machine_have_ports_of_their_own) {
  ::unsetenv("LOCAL_RANK");
  EXPECT_EQ(local_rank_port(9464), 9464);
  ::setenv("LOCAL_RANK", "3", 1);
  EXPECT_EQ(local_rank_port(9464), 9467);
  EXPECT_EQ(local_rank_port(65535), 65535);
  ::unsetenv("LOCAL_RANK");
}

// What the port answers to a plain request; empty if nobody listens.
std::string fetch(std::uint16_t port, const std::string& path, const std::string& more = "") {
  int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) {
    std::string request =
        "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + more + "\r\n";
    if (::send(socket, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
      char part[4096];
      for (ssize_t got = 0; (got = ::recv(socket, part, sizeof part, 0)) > 0;) {
        answer.append(part, static_cast<std::size_t>(got));
      }
    }
  }
  ::close(socket);
  return answer;
}

std::uint16_t free_port() {
  int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size);
  ::close(socket);
  return ntohs(at.sin_port);
}

std::unique_ptr<Monitor> monitor_at(const std::string& prometheus) {
  MonitorOptions options;
  options.config.mode = EstimateMode{};
  options.config.prometheus = prometheus;
  options.config.precision = Precision::bf16;
  options.model = *model_of_shape({.layers = 2, .hidden = 64, .heads = 4, .vocab = 1000});
  options.peak = FlopRate{1e15};
  options.peak_source = "made up, \"quoted\"\\\n";
  options.rank = 2;
  std::unique_ptr<Monitor> monitor = std::move(Monitor::open(std::move(options))).value();
  for (std::uint64_t step = 0; step < 3; ++step) {
    monitor->tokens().add(100);
    monitor->log_step(
        {.step = step * 10, .loss = 2.5, .duration_s = 0.25, .shape = StepShape::of(4, 128)});
  }
  EXPECT_TRUE(monitor->flush(std::chrono::seconds(60)));
  return monitor;
}

TEST(MetricsEndpoint, has_the_newest_step) {
  std::uint16_t port = free_port();
  std::unique_ptr<Monitor> monitor = monitor_at(":" + std::to_string(port));
  std::string answer = fetch(port, "/metrics");
  EXPECT_NE(answer.find("version=0.0.4"), std::string::npos) << answer;
  EXPECT_NE(answer.find("\nmfu_step{rank=\"2\"} 20\n"), std::string::npos) << answer;
  EXPECT_NE(answer.find("mfu_perf_step_time{rank=\"2\"} 0.25\n"), std::string::npos);
  monitor->log_step({.step = 77, .duration_s = 0.5});
  ASSERT_TRUE(monitor->flush(std::chrono::seconds(60)));
  EXPECT_NE(fetch(port, "/metrics").find("mfu_step{rank=\"2\"} 77\n"), std::string::npos);
  EXPECT_NE(fetch(port, "/other").find("404"), std::string::npos);
  monitor->close();
  EXPECT_EQ(fetch(port, "/metrics"), "");
}

TEST(MetricsEndpoint, a_port_that_is_taken_is_said_once_and_tried_again) {
  std::uint16_t port = free_port();
  std::unique_ptr<Monitor> first = monitor_at(":" + std::to_string(port));
  std::unique_ptr<Monitor> second = monitor_at(":" + std::to_string(port));
  ASSERT_EQ(second->warnings().size(), 1u);
  EXPECT_NE(second->warnings()[0].find("another port"), std::string::npos);
  EXPECT_EQ(second->status().reported, 3u);
}

TEST(MetricsEndpoint, beyond_loopback_it_wants_a_token) {
  std::uint16_t port = free_port();
  std::string at = "0.0.0.0:" + std::to_string(port);
  ::unsetenv("MFU_METRICS_TOKEN");
  std::vector<std::string> refused = monitor_at(at)->warnings();
  ASSERT_EQ(refused.size(), 1u) << refused[1];
  EXPECT_NE(refused[0].find("token"), std::string::npos) << refused[0];
  ::setenv("MFU_METRICS_TOKEN", "open sesame", 1);
  std::unique_ptr<Monitor> monitor = monitor_at(at);
  ::unsetenv("MFU_METRICS_TOKEN");
  EXPECT_TRUE(monitor->warnings().empty()) << monitor->warnings()[0];
  EXPECT_EQ(fetch(port, "/metrics").find("mfu_step"), std::string::npos);
  EXPECT_NE(fetch(port, "/metrics", "Authorization: Bearer open sesame\r\n").find("mfu_step"),
            std::string::npos);
}

}  // namespace
}  // namespace mfu
