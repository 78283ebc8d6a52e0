#include "run_metrics.h"

#include <fmt/format.h>
#include <mfu/sink.h>

#include <cstdlib>
#include <mutex>

namespace mfu::app {

namespace {

// The page that the watching thread writes and the server's thread reads.
struct Page {
  std::mutex mutex;
  std::string text;
};

WebAnswer answer_of(Page& page, const WebRequest& request) {
  if (request.path == "/") return {.body = "mfu run: /metrics\n"};
  if (request.path != "/metrics") return WebAnswer::not_found();
  std::lock_guard lock(page.mutex);
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = page.text};
}

}  // namespace

struct RunMetrics::State {
  std::string run, address;
  std::shared_ptr<Page> page = std::make_shared<Page>();
  std::unique_ptr<Server> server;
};

RunMetrics::RunMetrics(std::unique_ptr<State> state) : state_(std::move(state)) {}
RunMetrics::~RunMetrics() = default;

Result<std::unique_ptr<RunMetrics>> RunMetrics::listen(const std::string& where, std::string run) {
  std::optional<ListenAddress> at = parse_listen_address(where);
  if (!at) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--listen {}: give [HOST]:PORT, such as :9464 or 0.0.0.0:9464", where));
  }
  auto state = std::make_unique<State>();
  state->run = std::move(run);
  state->address = at->address;
  const char* token = std::getenv("MFU_METRICS_TOKEN");
  ServeOptions options{.address = at->address,
                       .port = local_rank_port(at->port),
                       .token = token == nullptr ? "" : token};
  options.answer = [page = state->page](const WebRequest& request) {
    return answer_of(*page, request);
  };
  state->server = MFU_TRY(Server::listen(std::move(options)));
  return std::unique_ptr<RunMetrics>(new RunMetrics(std::move(state)));
}

std::string RunMetrics::url() const {
  return fmt::format("http://{}:{}/metrics", state_->address, state_->server->port());
}

void RunMetrics::update(const RunRecord& recent, const RunReport& report,
                        const RunQuestion& question) {
  std::vector<ServedProcess> processes;
  for (const ProcessRecord& each : recent.processes) {
    ServedProcess served{.process = &each};
    RunRecord alone;
    alone.processes = {each};
    std::vector<StepReport> steps = report_run_steps(alone, question);
    if (!steps.empty()) served.newest = steps.back();
    if (!steps.empty() || !each.phases.empty()) processes.push_back(std::move(served));
  }
  std::string text = prometheus_text(state_->run, report, processes);
  std::lock_guard lock(state_->page->mutex);
  state_->page->text = std::move(text);
}

}  // namespace mfu::app
