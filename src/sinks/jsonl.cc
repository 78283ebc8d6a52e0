#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "sinks/line_file.h"
#include "sinks/words.h"

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

// Our lines begin as to_json() writes them: {"step":N,"time_unix_s":…
bool is_our_line(std::string_view line, bool half) {
  constexpr std::string_view kBegin = R"({"step":)", kNext = R"(,"time_unix_s":)";
  auto begins = [half](std::string_view text, std::string_view with) {
    return text.starts_with(with) || (half && with.starts_with(text));
  };
  if (!begins(line, kBegin)) return false;
  line.remove_prefix(std::min(line.size(), kBegin.size()));
  std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  return (half || digits != 0) && begins(line.substr(digits), kNext);
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
  std::vector<std::string> notes = all_words(report.contradictions, Voice::command_line);
  if (!report.note.empty()) notes.insert(notes.begin(), report.note);
  if (!notes.empty()) json.strings("notes", notes);
  json.end_object();
  return json.text();
}

std::unique_ptr<Sink> make_jsonl_sink(std::string path) {
  return make_line_file({.what = "the log",
                         .path = std::move(path),
                         .line = [](const StepReport& report) { return to_json(report) + '\n'; },
                         .ours = is_our_line});
}

}  // namespace mfu
