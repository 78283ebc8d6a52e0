#include <fmt/format.h>

#include "base/json.h"
#include "sinks/line_file.h"

namespace mfu {

namespace {

void write_calibration(JsonWriter& json, const StepReport& report) {
  json.key("calibration").begin_object();
  json.member("linear", report.calibration->linear);
  json.member("quadratic", report.calibration->quadratic);
  json.member("square", report.calibration->square);
  json.member("terms_apart", report.calibration->apart);
  json.member("readings", static_cast<std::uint64_t>(report.calibration->readings));
  json.member("age_steps", report.calibration_age);
  json.end_object();
}

}  // namespace

std::string to_json(const StepReport& report) {
  const UtilizationBasis& basis = *report.basis;
  JsonWriter json;
  json.begin_object();
  json.member("step", report.step);
  json.member("time_unix_s", static_cast<double>(report.time.count()) / 1e9);
  auto known = [&](std::string_view name, const auto& value) {
    if (value) json.member(name, *value);
  };
  known("epoch", report.epoch);
  known("loss", report.loss);
  known("grad_norm", report.grad_norm);
  known("learning_rate", report.learning_rate);
  for (const StepMetric& metric : report.metrics) json.member(metric.name, metric.value);
  known("model_flop", report.flop);
  if (report.source) json.member("source", name_of(*report.source));
  json.member("convention", describe(basis.convention).name);
  if (basis.precision) json.member("dtype", name_of(*basis.precision));
  if (basis.peak) {
    json.member("peak_flop_per_s", basis.peak->per_s);
    json.member("peak_source", basis.peak_source);
  }
  json.member("devices", basis.devices);
  if (basis.rank) json.member("rank", static_cast<std::uint64_t>(*basis.rank));
  if (report.calibration) write_calibration(json, report);
  std::vector<std::string> notes = report.contradictions;
  if (!report.note.empty()) notes.insert(notes.begin(), report.note);
  if (!notes.empty()) json.strings("notes", notes);
  json.end_object();
  return json.text();
}

std::unique_ptr<Sink> make_jsonl_sink(std::string path) {
  return make_line_file({.what = "the log",
                         .path = std::move(path),
                         .line = [](const StepReport& report) { return to_json(report) + '\n'; }});
}

}  // namespace mfu
