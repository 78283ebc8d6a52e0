#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "mfu/sink.h"
#include "sinks/http.h"

namespace mfu {
namespace {

// Answers one request with a status, and keeps what was asked.
class OneAnswer {
 public:
  explicit OneAnswer(std::string status) : status_(std::move(status)) {
    listening_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listening_, 4), 0);
    ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { answer(); });
  }
  ~OneAnswer() {
    if (thread_.joinable()) thread_.join();
    ::close(listening_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string request() {
    thread_.join();
    return request_;
  }

 private:
  void answer() {
    int one = ::accept(listening_, nullptr, nullptr);
    char block[4096];
    while (true) {
      std::size_t head = request_.find("\r\n\r\n");
      std::size_t length = request_.find("Content-Length: ");
      if (head != std::string::npos && length != std::string::npos &&
          request_.size() >= head + 4 + std::stoul(request_.substr(length + 16))) {
        break;
      }
      ssize_t count = ::read(one, block, sizeof block);
      if (count <= 0) break;
      request_.append(block, static_cast<std::size_t>(count));
    }
    std::string reply = "HTTP/1.1 " + status_ + "\r\nContent-Length: 3\r\n\r\nno\n";
    EXPECT_EQ(::write(one, reply.data(), reply.size()), static_cast<ssize_t>(reply.size()));
    ::close(one);
  }
  std::string status_, request_;
  int listening_ = -1;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

StepReport report() {
  StepInput input{.step = 3, .loss = 1.5};
  return report_step(input, std::make_shared<UtilizationBasis>());
}

TEST(WebSinks, PostToWhereTheirServersListen) {
  ASSERT_TRUE(require_http().has_value()) << require_http().error().message;
  StepReport one = report();
  OneAnswer collector("200 OK");
  Result<void> sent = make_otlp_sink({.url = collector.url()})->write(std::span(&one, 1));
  EXPECT_TRUE(sent.has_value()) << sent.error().message;
  std::string request = collector.request();
  EXPECT_EQ(request.find("POST /v1/metrics"), 0u);
  EXPECT_NE(request.find("Content-Type: application/json"), std::string::npos);
  EXPECT_NE(request.find(otlp_body(std::span(&one, 1), "mfu")), std::string::npos);
  OneAnswer tracking("200 OK");
  auto mlflow = make_mlflow_sink({.url = tracking.url(), .headers = {"X-A: b"}, .run = "r1"});
  EXPECT_TRUE(mlflow->open().has_value());
  EXPECT_TRUE(mlflow->write(std::span(&one, 1)).has_value());
  request = tracking.request();
  EXPECT_EQ(request.find("POST /api/2.0/mlflow/runs/log-batch"), 0u);
  EXPECT_NE(request.find("X-A: b"), std::string::npos);
}

TEST(WebSinks, SayWhoRefusedAndWhy) {
  ASSERT_TRUE(require_http().has_value()) << require_http().error().message;
  StepReport one = report();
  OneAnswer broken("503 Service Unavailable");
  Result<void> sent = make_otlp_sink({.url = broken.url()})->write(std::span(&one, 1));
  ASSERT_FALSE(sent.has_value());
  EXPECT_NE(sent.error().message.find("503"), std::string::npos);
  Result<void> nobody = make_otlp_sink({.url = "http://127.0.0.1:1"})->write(std::span(&one, 1));
  EXPECT_EQ(nobody.error().code, ErrorCode::io);
  EXPECT_FALSE(make_mlflow_sink({.url = "http://127.0.0.1:1"})->open().has_value());
}

}  // namespace
}  // namespace mfu
