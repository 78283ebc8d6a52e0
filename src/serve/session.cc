#include "serve/session.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>

#include "base/fork.h"
#include "serve/address.h"

namespace mfu {

namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

constexpr auto kPatience = std::chrono::seconds(15);
constexpr std::uint32_t kHeaderBytesMost = 8192;

using Request = http::request<http::empty_body>;

std::string bearer(const Request& request) {
  std::string_view given(request[http::field::authorization].data(),
                         request[http::field::authorization].size());
  constexpr std::string_view kPrefix = "Bearer ";
  return given.starts_with(kPrefix) ? std::string(given.substr(kPrefix.size())) : std::string();
}

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(boost::asio::ip::tcp::socket socket, std::shared_ptr<ServeState> state)
      : stream_(std::move(socket)), state_(std::move(state)), timer_(stream_.get_executor()) {
    ++state_->connections;
    close_in_children(descriptor_);
  }
  ~Session() {
    forget_descriptor(descriptor_);
    --state_->connections;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(kHeaderBytesMost);
    parser_->body_limit(0);
    stream_.expires_after(kPatience);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code error, std::size_t) {
                       if (error == http::error::body_limit) {
                         self->send({.status = 413, .body = "nothing here takes a body\n"}, false);
                       } else if (error == http::error::header_limit) {
                         self->send({.status = 431, .body = "headers too long\n"}, false);
                       } else if (!error) {
                         self->handle();
                       }
                     });
  }

 private:
  void handle() {
    const Request& request = parser_->get();
    bool keep = request.keep_alive();
    head_only_ = request.method() == http::verb::head;
    if (!head_only_ && request.method() != http::verb::get) {
      return send({.status = 405, .body = "only GET and HEAD\n"}, keep);
    }
    std::string_view target(request.target().data(), request.target().size());
    std::size_t mark = target.find('?');
    WebRequest asked;
    asked.query = mark == std::string_view::npos ? "" : std::string(target.substr(mark + 1));
    std::optional<std::string> path = percent_decoded(target.substr(0, mark));
    if (!path || !path->starts_with('/')) return send({.status = 400, .body = "bad path\n"}, keep);
    asked.path = *path;
    if (std::optional<WebAnswer> refusal = refused(request, asked)) {
      return send(std::move(*refusal), keep);
    }
    if (asked.path == "/events" && state_->options.next_event && !head_only_) {
      return begin_events(request);
    }
    send(state_->options.answer ? state_->options.answer(asked) : WebAnswer::not_found(), keep);
  }

  std::optional<WebAnswer> refused(const Request& request, const WebRequest& asked) const {
    std::string_view header(request[http::field::host].data(), request[http::field::host].size());
    const ServeOptions& options = state_->options;
    bool named = request.count(http::field::host) == 1 && is_loopback_name(host_of(header));
    if (state_->loopback && !named) {
      return WebAnswer{.status = 421,
                       .body = "this server answers as localhost only: ask for 127.0.0.1\n"};
    }
    if (options.token.empty()) return std::nullopt;
    std::string given = bearer(request);
    if (given.empty()) given = query_value(asked.query, "token").value_or("");
    if (same_secret(given, options.token)) return std::nullopt;
    return WebAnswer{.status = 401,
                     .body = "a token is needed: Authorization: Bearer TOKEN, or ?token=TOKEN\n"};
  }

  void send(WebAnswer answer, bool keep) {
    auto response = std::make_shared<http::response<http::string_body>>();
    response->result(answer.status);
    response->version(11);
    response->set(http::field::content_type, answer.type);
    response->set(http::field::cache_control, "no-store");
    response->set("X-Content-Type-Options", "nosniff");
    response->set("Referrer-Policy", "no-referrer");
    response->set("Cross-Origin-Resource-Policy", "same-origin");
    if (answer.status == 401) response->set(http::field::www_authenticate, "Bearer");
    if (answer.status == 405) response->set(http::field::allow, "GET, HEAD");
    response->keep_alive(keep);
    response->body() = std::move(answer.body);
    response->prepare_payload();
    if (head_only_) response->body().clear();  // the length stays in the header
    stream_.expires_after(kPatience);
    auto done = [self = shared_from_this(), response, keep](error_code error, std::size_t) {
      if (error) return;
      if (keep) return self->read();
      error_code ignored;
      (void)self->stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    };
    if (head_only_) {
      auto serializer = std::make_shared<http::response_serializer<http::string_body>>(*response);
      http::async_write_header(
          stream_, *serializer,
          [serializer, done](error_code error, std::size_t bytes) { done(error, bytes); });
    } else {
      http::async_write(stream_, *response, done);
    }
  }

  void begin_events(const Request& request) {
    std::string_view last(request["Last-Event-ID"].data(), request["Last-Event-ID"].size());
    std::from_chars(last.data(), last.data() + last.size(), last_event_);
    text_ =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nretry: 2000\n\n";
    write_events();
  }

  void write_events() {
    stream_.expires_after(kPatience);
    boost::asio::async_write(stream_, boost::asio::buffer(text_),
                             [self = shared_from_this()](error_code error, std::size_t) {
                               if (!error) self->wait_for_event();
                             });
  }

  void wait_for_event() {
    timer_.expires_after(state_->options.event_period);
    timer_.async_wait([self = shared_from_this()](error_code error) {
      if (error) return;
      std::optional<ServeOptions::Event> next = self->state_->options.next_event(self->last_event_);
      if (next) {
        self->last_event_ = next->number;
        self->text_ = fmt::format("id: {}\ndata: {}\n\n", next->number, next->data);
      } else {
        self->text_ = ":\n\n";  // a comment, to find out whether anybody still listens
      }
      self->write_events();
    });
  }

  beast::tcp_stream stream_;
  int descriptor_ = stream_.socket().native_handle();
  std::shared_ptr<ServeState> state_;
  boost::asio::steady_timer timer_;
  beast::flat_buffer buffer_{kHeaderBytesMost + 1024};
  std::optional<http::request_parser<http::empty_body>> parser_;
  bool head_only_ = false;
  std::uint64_t last_event_ = 0;
  std::string text_;
};

}  // namespace

bool has_room(const ServeState& state, int descriptor) {
  if (state.connections >= state.options.connections_most) return false;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  rlim_t left_to_the_program = std::min<rlim_t>(64, limit.rlim_cur / 2);
  return static_cast<rlim_t>(descriptor) + left_to_the_program < limit.rlim_cur;
}

void begin_session(boost::asio::ip::tcp::socket socket, std::shared_ptr<ServeState> state) {
  std::make_shared<Session>(std::move(socket), std::move(state))->read();
}

}  // namespace mfu
