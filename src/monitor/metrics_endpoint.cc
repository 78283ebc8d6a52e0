#include "monitor/metrics_endpoint.h"

#include <fmt/format.h>

#include <mutex>

#include "mfu/sink.h"

namespace mfu {

namespace {

// The page. The monitor's thread writes it and the server's thread reads it, under a lock.
struct Page {
  std::mutex mutex;
  std::string text;
};

WebAnswer answer_of(Page& page, const WebRequest& request) {
  if (request.path != "/metrics") {
    return request.path == "/" ? WebAnswer{.body = "mfu: /metrics has the newest step\n"}
                               : WebAnswer::not_found();
  }
  std::lock_guard lock(page.mutex);
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = page.text};
}

class MetricsEndpoint : public Sink {
 public:
  MetricsEndpoint(MetricsAddress at, std::string token)
      : at_(std::move(at)), token_(std::move(token)) {}

  std::string name() const override {
    return fmt::format("metrics at http://{}:{}/metrics", at_.address, at_.port);
  }

  Result<void> open() override {
    server_.reset();
    ServeOptions options{.address = at_.address, .port = at_.port, .token = token_};
    options.answer = [page = page_](const WebRequest& request) {
      return answer_of(*page, request);
    };
    server_ = MFU_TRY(Server::listen(std::move(options)));
    return {};
  }

  Result<void> write(std::span<const StepReport> reports) override {
    if (reports.empty()) return {};
    std::string text = prometheus_text(reports.last(1));
    std::lock_guard lock(page_->mutex);
    page_->text = std::move(text);
    return {};
  }

  Result<void> close() override {
    server_.reset();
    return {};
  }

 private:
  MetricsAddress at_;
  std::string token_;
  std::shared_ptr<Page> page_ = std::make_shared<Page>();
  std::unique_ptr<Server> server_;
};

}  // namespace

std::optional<MetricsAddress> parse_metrics_address(std::string_view text) {
  return parse_listen_address(text);
}

bool is_wrong_metrics_address(std::string_view text) {
  if (text.find("://") != std::string_view::npos) return true;  // nobody is pushed to
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.find('/') != std::string_view::npos) return false;
  std::string_view port = text.substr(colon + 1);
  bool number = port.find_first_not_of("0123456789") == std::string_view::npos;
  return (number || colon == 0) && !parse_listen_address(text);
}

std::unique_ptr<Sink> make_metrics_endpoint(MetricsAddress at, std::string token) {
  return std::make_unique<MetricsEndpoint>(std::move(at), std::move(token));
}

}  // namespace mfu
