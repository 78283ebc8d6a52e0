// MLflow's REST interface, runs/log-batch, takes at most 1000 metrics per request. If a reply is
// lost, metrics/get-history says which metrics arrived, so that each is sent once.
#include <fmt/format.h>

#include <cstdlib>
#include <set>
#include <tuple>

#include "base/json.h"
#include "mfu/sink.h"
#include "sinks/http.h"

namespace mfu {

namespace {

constexpr std::size_t kMostSteps = 1000 / 16;  // a step has at most 16 scalars
constexpr int kMostPages = 256;                // of a metric's history

using Point = std::tuple<std::string, std::uint64_t, std::uint64_t>;  // metric, step, milliseconds

std::uint64_t milliseconds_of(const StepReport& report) {
  return static_cast<std::uint64_t>(report.time.count() / 1'000'000);
}

// protobuf's JSON may write a count as text.
std::uint64_t count_in(const Json& object, std::string_view name) {
  if (std::optional<std::uint64_t> count = object.count_at(name)) return *count;
  return std::strtoull(object.text_at(name).c_str(), nullptr, 10);
}

void write_metrics(JsonWriter& json, std::span<const StepReport> reports,
                   const std::set<Point>& known) {
  json.key("metrics").begin_array();
  for (const StepReport& report : reports) {
    for (const StepMetric& scalar : scalars_of(report)) {
      if (known.contains({std::string(scalar.name), report.step, milliseconds_of(report)}))
        continue;
      json.begin_object();
      json.member("key", scalar.name);
      json.member("value", scalar.value);
      json.member("timestamp", milliseconds_of(report));
      json.member("step", report.step);
      json.end_object();
    }
  }
  json.end_array();
}

std::string body_without(std::span<const StepReport> reports, std::string_view run_id,
                         const std::set<Point>& known) {
  JsonWriter json;
  json.begin_object().member("run_id", run_id);
  write_metrics(json, reports, known);
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
  std::size_t most_at_once() const override { return kMostSteps; }
  Result<void> write(std::span<const StepReport> reports) override {
    std::set<Point> known;
    if (unsure_) known = MFU_TRY(known_of(reports));
    HttpPost request{.url = target_.url + "/api/2.0/mlflow/runs/log-batch",
                     .headers = target_.headers,
                     .body = body_without(reports, target_.run, known),
                     .patience_s = target_.patience_s};
    request.headers.emplace_back("Content-Type: application/json");
    Posted posted = post(request);
    unsure_ = unsure_ ? !posted.result.has_value() : posted.perhaps_taken;
    return posted.result;
  }
  Result<void> close() override { return {}; }

 private:
  // The points of these reports that the run already has.
  Result<std::set<Point>> known_of(std::span<const StepReport> reports) const {
    std::set<std::string> names;
    std::set<std::uint64_t> steps;
    for (const StepReport& report : reports) {
      steps.insert(report.step);
      for (const StepMetric& scalar : scalars_of(report)) names.emplace(scalar.name);
    }
    std::set<Point> known;
    for (const std::string& name : names) {
      std::string page,
          query = fmt::format("{}/api/2.0/mlflow/metrics/get-history?run_id={}&metric_key={}",
                              target_.url, percent_encoded(target_.run), percent_encoded(name));
      for (int pages = 0; pages < kMostPages; ++pages) {
        std::string next = page.empty() ? query : query + "&page_token=" + percent_encoded(page);
        std::string text = MFU_TRY(fetch(next, target_.headers, target_.patience_s));
        Json answer = MFU_TRY(parse_json(text, "MLflow's answer"));
        const Json* points = answer.find("metrics");
        for (const Json& point : points == nullptr ? std::vector<Json>() : points->elements()) {
          std::uint64_t step = count_in(point, "step");
          if (steps.contains(step)) known.emplace(name, step, count_in(point, "timestamp"));
        }
        page = answer.text_at("next_page_token");
        if (page.empty()) break;
      }
    }
    return known;
  }

  WebTarget target_;
  bool unsure_ = false;  // the server may have taken the last request
};

}  // namespace

std::string mlflow_body(std::span<const StepReport> reports, std::string_view run_id) {
  return body_without(reports, run_id, {});
}

std::unique_ptr<Sink> make_mlflow_sink(WebTarget target) {
  return std::make_unique<MlflowSink>(std::move(target));
}

}  // namespace mfu
