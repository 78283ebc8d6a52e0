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

// A server that answers one request after another and keeps what was asked. An empty status means a
// lost reply.
class Answers {
 public:
  struct Reply {
    std::string status, body;
  };
  explicit Answers(std::vector<Reply> replies) : replies_(std::move(replies)) {
    listening_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listening_, 4), 0);
    ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      for (const Reply& each : replies_) answer(each);
    });
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers() {
    if (thread_.joinable()) thread_.join();
    ::close(listening_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<std::string> requests() {
    thread_.join();
    return requests_;
  }

 private:
  void answer(const Reply& reply) {
    std::string request;
    int one = ::accept(listening_, nullptr, nullptr);
    char block[4096];
    while (true) {
      std::size_t head = request.find("\r\n\r\n");
      std::size_t length = request.find("Content-Length: ");
      std::size_t body = length == std::string::npos ? 0 : std::stoul(request.substr(length + 16));
      if (head != std::string::npos && request.size() >= head + 4 + body) break;
      ssize_t count = ::read(one, block, sizeof block);
      if (count <= 0) break;
      request.append(block, static_cast<std::size_t>(count));
    }
    requests_.push_back(std::move(request));
    if (!reply.status.empty()) {
      std::string text = "HTTP/1.1 " + reply.status + "\r\nConnection: close\r\nContent-Length: " +
                         std::to_string(reply.body.size()) + "\r\n\r\n" + reply.body;
      EXPECT_EQ(::write(one, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    ::close(one);
  }
  std::vector<Reply> replies_;
  std::vector<std::string> requests_;
  int listening_ = -1;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

StepReport report() {
  StepInput input{.step = 3, .loss = 1.5};
  return report_step(input, std::make_shared<UtilizationBasis>());
}

TEST(WebSinks, post_to_where_their_servers_listen) {
  ASSERT_TRUE(require_http().has_value()) << require_http().error().message;
  StepReport one = report();
  Answers collector(std::vector<Answers::Reply>{{"200 OK", ""}});
  Result<void> sent = make_otlp_sink({.url = collector.url()})->write(std::span(&one, 1));
  EXPECT_TRUE(sent.has_value()) << sent.error().message;
  std::string request = collector.requests()[0];
  EXPECT_EQ(request.find("POST /v1/metrics"), 0u);
  EXPECT_NE(request.find("Content-Type: application/json"), std::string::npos);
  EXPECT_NE(request.find(otlp_body(std::span(&one, 1), "mfu")), std::string::npos);
  Answers tracking(std::vector<Answers::Reply>{{"200 OK", ""}});
  auto mlflow = make_mlflow_sink({.url = tracking.url(), .headers = {"X-A: b"}, .run = "r1"});
  EXPECT_TRUE(mlflow->open().has_value());
  EXPECT_TRUE(mlflow->write(std::span(&one, 1)).has_value());
  request = tracking.requests()[0];
  EXPECT_EQ(request.find("POST /api/2.0/mlflow/runs/log-batch"), 0u);
  EXPECT_NE(request.find("X-A: b"), std::string::npos);
}

// The first request arrived but its reply did not. So MLflow is asked what it has, and gets the
// rest.
TEST(WebSinks, mlflow_gets_each_point_once_also_where_a_reply_is_lost) {
  ASSERT_TRUE(require_http().has_value()) << require_http().error().message;
  std::vector<StepReport> two = {report(), report()};
  two[1].step = 4;
  Answers tracking(
      {{"", ""},
       {"200 OK", R"({"metrics":[{"key":"training/loss","step":"3","timestamp":"0"}]})"},
       {"200 OK", "{}"},
       {"200 OK", "{}"}});
  auto mlflow = make_mlflow_sink({.url = tracking.url(), .run = "r 1"});
  EXPECT_FALSE(mlflow->write(two).has_value());
  EXPECT_TRUE(mlflow->write(two).has_value());
  EXPECT_TRUE(mlflow->write(two).has_value());  // other steps, so the server is not asked
  std::vector<std::string> requests = tracking.requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_NE(requests[0].find(mlflow_body(two, "r 1")), std::string::npos);
  EXPECT_EQ(requests[1].find("GET /api/2.0/mlflow/metrics/get-history?run_id=r%201&metric_key="
                             "training%2Floss HTTP"),
            0u)
      << requests[1];
  EXPECT_EQ(requests[2].find("\"step\":3"), std::string::npos);
  EXPECT_NE(requests[2].find("\"step\":4"), std::string::npos);
  EXPECT_NE(requests[3].find("\"step\":3"), std::string::npos);
  EXPECT_LE(mlflow->most_at_once() * 16, 1000u);
}

TEST(WebSinks, otlp_sends_what_had_no_reply_again_as_it_was) {
  ASSERT_TRUE(require_http().has_value()) << require_http().error().message;
  std::vector<StepReport> one = {report()};
  Answers collector(std::vector<Answers::Reply>{{"", ""}, {"200 OK", ""}});
  auto otlp = make_otlp_sink({.url = collector.url()});
  EXPECT_FALSE(otlp->write(one).has_value());  // so that the batch is offered again
  EXPECT_TRUE(otlp->write(one).has_value());
  std::vector<std::string> requests = collector.requests();
  EXPECT_NE(requests[0].find(otlp_body(one, "mfu")), std::string::npos);
  EXPECT_EQ(requests[0], requests[1]);
}

// A request that never left is sent again whole, because nothing of it can have arrived.
TEST(WebSinks, a_server_that_is_not_there_has_taken_nothing) {
  Posted posted = post({.url = "http://127.0.0.1:1", .headers = {}, .body = "x"});
  EXPECT_FALSE(posted.result.has_value());
  EXPECT_FALSE(posted.perhaps_taken);
}

TEST(WebSinks, say_who_refused_and_why) {
  ASSERT_TRUE(require_http().has_value()) << require_http().error().message;
  StepReport one = report();
  Answers broken(std::vector<Answers::Reply>{{"503 Service Unavailable", "no\n"}});
  Result<void> sent = make_otlp_sink({.url = broken.url()})->write(std::span(&one, 1));
  ASSERT_FALSE(sent.has_value());
  EXPECT_NE(sent.error().message.find("503"), std::string::npos);
  Result<void> nobody = make_otlp_sink({.url = "http://127.0.0.1:1"})->write(std::span(&one, 1));
  EXPECT_EQ(nobody.error().code, ErrorCode::io);
  EXPECT_FALSE(make_mlflow_sink({.url = "http://127.0.0.1:1"})->open().has_value());
}

}  // namespace
}  // namespace mfu
