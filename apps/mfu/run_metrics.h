// `mfu run --listen`: serves the state of this launcher's ranks over HTTP, for Prometheus.
#pragma once

#include <mfu/result.h>
#include <mfu/run.h>

#include <memory>
#include <string>

namespace mfu::app {

class RunMetrics {
 public:
  // Listens at once, on its own thread. On an address other than loopback, requests must carry the
  // token of $MFU_METRICS_TOKEN. Tasks of one machine use consecutive ports. Fails with
  // `invalid_argument` or `io`, as Server::listen() does.
  static Result<std::unique_ptr<RunMetrics>> listen(const std::string& where, std::string run);
  ~RunMetrics();
  RunMetrics(const RunMetrics&) = delete;
  RunMetrics& operator=(const RunMetrics&) = delete;

  std::string url() const;
  // Replaces what /metrics answers.
  void update(const RunRecord& recent, const RunReport& report, const RunQuestion& question);

 private:
  struct State;
  explicit RunMetrics(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mfu::app
