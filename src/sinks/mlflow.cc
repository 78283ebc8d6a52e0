// MLflow's REST interface, runs/log-batch: at most 1000 metrics a request, and that many are sent.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "mfu/sink.h"
#include "sinks/http.h"

namespace mfu {

namespace {

constexpr std::size_t kMostSteps = 1000 / 16;  // a step has at most 16 scalars

class MlflowSink : public Sink {
 public:
  explicit MlflowSink(WebTarget target) : target_(std::move(target)) {}
  std::chrono::nanoseconds pace() const override { return std::chrono::seconds(1); }
  std::string name() const override { return fmt::format("MLflow at {}", target_.url); }
  Result<void> open() override {
    if (target_.run.empty()) {
      return fail(ErrorCode::invalid_argument,
                  "MLflow needs the run to write to: give its run id (mlflow.active_run())");
    }
    return require_http();
  }
  // A request that failed half-way through a longer batch is sent again whole: MLflow keeps equal
  // points apart, which a chart does not show.
  Result<void> write(std::span<const StepReport> reports) override {
    for (; !reports.empty(); reports = reports.subspan(std::min(kMostSteps, reports.size()))) {
      HttpPost request{
          .url = target_.url + "/api/2.0/mlflow/runs/log-batch",
          .headers = target_.headers,
          .body = mlflow_body(reports.first(std::min(kMostSteps, reports.size())), target_.run),
          .patience_s = target_.patience_s};
      request.headers.emplace_back("Content-Type: application/json");
      MFU_TRY(post(request));
    }
    return {};
  }
  Result<void> close() override { return {}; }

 private:
  WebTarget target_;
};

}  // namespace

std::string mlflow_body(std::span<const StepReport> reports, std::string_view run_id) {
  JsonWriter json;
  json.begin_object().member("run_id", run_id);
  json.key("metrics").begin_array();
  for (const StepReport& report : reports) {
    for (const StepMetric& scalar : scalars_of(report)) {
      json.begin_object();
      json.member("key", scalar.name);
      json.member("value", scalar.value);
      json.member("timestamp", static_cast<std::uint64_t>(report.time.count() / 1'000'000));
      json.member("step", report.step);
      json.end_object();
    }
  }
  json.end_array();
  if (!reports.empty()) {
    const UtilizationBasis& basis = *reports.back().basis;
    json.key("tags").begin_array();
    auto tag = [&](std::string_view key, std::string_view value) {
      json.begin_object().member("key", key).member("value", value).end_object();
    };
    tag("mfu.convention", describe(basis.convention).name);
    if (reports.back().source) tag("mfu.source", name_of(*reports.back().source));
    if (basis.peak) tag("mfu.peak_flop_per_s", json_number(basis.peak->per_s));
    if (!basis.peak_source.empty()) tag("mfu.peak_source", basis.peak_source);
    json.end_array();
  }
  json.end_object();
  return json.text();
}

std::unique_ptr<Sink> make_mlflow_sink(WebTarget target) {
  return std::make_unique<MlflowSink>(std::move(target));
}

}  // namespace mfu
