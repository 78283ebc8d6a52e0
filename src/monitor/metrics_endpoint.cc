#include "monitor/metrics_endpoint.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <mutex>

#include "mfu/serve.h"

namespace mfu {

namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

// What the server's thread reads and the monitor's writes: a text, copied under a lock.
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
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::optional<std::uint16_t> port = parse_port(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  if (!port || host.find('/') != std::string_view::npos) return std::nullopt;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "localhost") host = "127.0.0.1";
  return MetricsAddress{std::string(host), *port};
}

bool is_wrong_metrics_address(std::string_view text) {
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.find('/') != std::string_view::npos) return false;
  std::string_view port = text.substr(colon + 1);
  return port.find_first_not_of("0123456789") == std::string_view::npos && !parse_port(port);
}

std::uint16_t local_rank_port(std::uint16_t port) {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    std::string_view text = value;
    std::uint16_t rank = 0;
    std::from_chars(text.data(), text.data() + text.size(), rank);
    return rank < 1024 && port <= 65535 - rank ? static_cast<std::uint16_t>(port + rank) : port;
  }
  return port;
}

std::unique_ptr<Sink> make_metrics_endpoint(MetricsAddress at, std::string token) {
  return std::make_unique<MetricsEndpoint>(std::move(at), std::move(token));
}

}  // namespace mfu
