#include "base/http_get.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace mfu {
namespace {

using std::chrono::milliseconds;

// Answers one request with the given bytes, in two parts. Without bytes it never answers.
class OneAnswer {
 public:
  explicit OneAnswer(std::string bytes) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &size);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    thread_ = std::thread([this, bytes = std::move(bytes)] { serve(bytes); });
  }
  ~OneAnswer() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }
  const std::string& url() const { return url_; }
  const std::string& request() const { return request_; }

 private:
  void serve(const std::string& bytes) {
    int client = ::accept(socket_, nullptr, nullptr);
    if (client < 0) return;
    char part[4096];
    ssize_t got = ::recv(client, part, sizeof part, 0);
    if (got > 0) request_.assign(part, static_cast<std::size_t>(got));
    if (bytes.empty()) {
      while (::recv(client, part, sizeof part, 0) > 0) continue;
    } else {
      std::size_t half = bytes.size() / 2;
      (void)::send(client, bytes.data(), half, MSG_NOSIGNAL);
      std::this_thread::sleep_for(milliseconds(5));
      (void)::send(client, bytes.data() + half, bytes.size() - half, MSG_NOSIGNAL);
    }
    ::close(client);
  }
  int socket_;
  std::string url_, request_;
  std::thread thread_;
};

TEST(HttpGet, gives_the_body) {
  OneAnswer server("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nhello\nworld\n");
  Result<std::string> got = http_get(server.url() + "/metrics?x=1", milliseconds(10000));
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(*got, "hello\nworld\n");
  EXPECT_EQ(server.request().find("GET /metrics?x=1 HTTP/1.0\r\n"), 0u);
}

TEST(HttpGet, says_what_went_wrong) {
  OneAnswer missing("HTTP/1.1 404 Not Found\r\n\r\n");
  EXPECT_NE(http_get(missing.url(), milliseconds(10000)).error().message.find("404"),
            std::string::npos);
  OneAnswer nonsense("SSH-2.0-OpenSSH_9.2\r\n");
  EXPECT_FALSE(http_get(nonsense.url(), milliseconds(10000)).has_value());
  OneAnswer cut("HTTP/1.0 200 OK\r\nConte");
  EXPECT_FALSE(http_get(cut.url(), milliseconds(10000)).has_value());
  for (const char* url : {"", "ftp://x", "https://x", "http://", "http://:80",
                          "http://a:", "http://a/b c", "http://a/\r\nX: y"}) {
    EXPECT_EQ(http_get(url, milliseconds(100)).error().code, ErrorCode::invalid_argument) << url;
  }
  EXPECT_EQ(http_get("http://127.0.0.1:1/", milliseconds(1000)).error().code, ErrorCode::io);
}

TEST(HttpGet, does_not_wait_forever) {
  OneAnswer silent("");
  EXPECT_EQ(http_get(silent.url(), milliseconds(50)).error().code, ErrorCode::io);
}

}  // namespace
}  // namespace mfu
