// OTLP/HTTP with JSON bodies (opentelemetry-proto, ExportMetricsServiceRequest). Each metric is a
// gauge with one data point per step. Attributes say how a utilization was computed.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "mfu/sink.h"
#include "sinks/http.h"

namespace mfu {

namespace {

void attribute(JsonWriter& json, std::string_view key, std::string_view text) {
  json.begin_object().member("key", key);
  json.key("value").begin_object().member("stringValue", text).end_object();
  json.end_object();
}

void data_point(JsonWriter& json, const StepReport& report, double value) {
  const UtilizationBasis& basis = *report.basis;
  json.begin_object();
  json.member("timeUnixNano", std::to_string(report.time.count()));
  json.member("asDouble", value);
  json.key("attributes").begin_array();
  attribute(json, "step", std::to_string(report.step));
  attribute(json, "convention", describe(basis.convention).name);
  if (report.source) attribute(json, "source", name_of(*report.source));
  if (basis.precision) attribute(json, "dtype", name_of(*basis.precision));
  if (basis.peak) {
    attribute(json, "peak_flop_per_s", json_number(basis.peak->per_s));
    attribute(json, "peak_source", basis.peak_source);
  }
  if (basis.rank) attribute(json, "rank", std::to_string(*basis.rank));
  json.end_array().end_object();
}

class OtlpSink : public Sink {
 public:
  explicit OtlpSink(WebTarget target) : target_(std::move(target)) {}
  std::chrono::nanoseconds pace() const override { return std::chrono::seconds(1); }
  std::string name() const override { return fmt::format("OTLP at {}", target_.url); }
  Result<void> open() override { return require_http(); }
  Result<void> write(std::span<const StepReport> reports) override {
    HttpPost request{.url = target_.url + "/v1/metrics",
                     .headers = target_.headers,
                     .body = otlp_body(reports, target_.run.empty() ? "mfu" : target_.run),
                     .patience_s = target_.patience_s};
    request.headers.emplace_back("Content-Type: application/json");
    // If a reply is lost, the protocol has no way to ask and tells clients to send again. The
    // second point has the same time, value and attributes as the first, so a store that compares
    // them keeps one.
    return post(request).result;
  }
  Result<void> close() override { return {}; }

 private:
  WebTarget target_;
};

}  // namespace

std::string otlp_body(std::span<const StepReport> reports, std::string_view service) {
  std::vector<std::string_view> names;  // in the order of their first appearance
  std::vector<std::vector<StepMetric>> scalars;
  for (const StepReport& report : reports) {
    scalars.push_back(scalars_of(report));
    for (const StepMetric& scalar : scalars.back()) {
      if (std::find(names.begin(), names.end(), scalar.name) == names.end()) {
        names.push_back(scalar.name);
      }
    }
  }
  JsonWriter json;
  json.begin_object().key("resourceMetrics").begin_array().begin_object();
  json.key("resource").begin_object().key("attributes").begin_array();
  attribute(json, "service.name", service);
  json.end_array().end_object();
  json.key("scopeMetrics").begin_array().begin_object();
  json.key("scope").begin_object().member("name", "mfu").end_object();
  json.key("metrics").begin_array();
  for (std::string_view name : names) {
    json.begin_object().member("name", name);
    json.key("gauge").begin_object().key("dataPoints").begin_array();
    for (std::size_t i = 0; i < reports.size(); ++i) {
      for (const StepMetric& scalar : scalars[i]) {
        if (scalar.name == name) data_point(json, reports[i], scalar.value);
      }
    }
    json.end_array().end_object().end_object();
  }
  json.end_array().end_object().end_array().end_object().end_array().end_object();
  return json.text();
}

std::unique_ptr<Sink> make_otlp_sink(WebTarget target) {
  return std::make_unique<OtlpSink>(std::move(target));
}

}  // namespace mfu
