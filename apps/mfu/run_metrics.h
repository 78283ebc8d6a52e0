// `mfu run --listen`: what this launcher's ranks do, over HTTP, for Prometheus to fetch.
#pragma once

#include <mfu/result.h>
#include <mfu/run.h>

#include <memory>
#include <string>

namespace mfu::app {

class RunMetrics {
 public:
  // Listens at once, on a thread of its own; beyond loopback requests need $MFU_METRICS_TOKEN.
  // Tasks of one machine take ports one after another. `invalid_argument` and `io` as
  // Server::listen().
  static Result<std::unique_ptr<RunMetrics>> listen(const std::string& where, std::string run);
  ~RunMetrics();
  RunMetrics(const RunMetrics&) = delete;
  RunMetrics& operator=(const RunMetrics&) = delete;

  std::string url() const;
  // What /metrics answers from now on.
  void update(const RunRecord& recent, const RunReport& report, const RunQuestion& question);

 private:
  struct State;
  explicit RunMetrics(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mfu::app
