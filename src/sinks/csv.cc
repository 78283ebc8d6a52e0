#include <fmt/format.h>

#include "base/json.h"
#include "sinks/line_file.h"

namespace mfu {

namespace {

// RFC 4180: a cell with a comma, a quote or a line end is quoted.
std::string cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (char each : text) quoted.append(each == '"' ? 2 : 1, each);
  return quoted + '"';
}

// The columns of version 0.1.0. A table that has only these keeps them.
std::string older_header() {
  std::string line = "step,time_unix_s,epoch,loss,grad_norm,learning_rate";
  for (std::string_view name : step_metric_names()) line += fmt::format(",{}", name);
  line += ",model_flop,source,convention,dtype,peak_flop_per_s,peak_source,devices,rank";
  return line + '\n';
}

std::string header() {
  std::string line = older_header();
  line.pop_back();
  for (std::string_view name : phase_metric_names()) line += fmt::format(",{}", name);
  return line + '\n';
}

std::string number(const std::optional<double>& value) {
  return value ? json_number(*value) : "";
}

std::string older_row(const StepReport& report) {
  const UtilizationBasis& basis = *report.basis;
  std::string line =
      fmt::format("{},{},{},{},{},{}", report.step,
                  json_number(static_cast<double>(report.time.count()) / 1e9), number(report.epoch),
                  number(report.loss), number(report.grad_norm), number(report.learning_rate));
  for (std::string_view name : step_metric_names()) line += ',' + number(report.value(name));
  line += fmt::format(",{},{},{},{},{},{},{},{}", report.flop ? report.flop->to_string() : "",
                      report.source ? name_of(*report.source) : "", describe(basis.convention).name,
                      basis.precision ? name_of(*basis.precision) : "",
                      basis.peak ? json_number(basis.peak->per_s) : "", cell(basis.peak_source),
                      basis.devices, basis.rank ? std::to_string(*basis.rank) : "");
  return line + '\n';
}

std::string row(const StepReport& report) {
  std::string line = older_row(report);
  line.pop_back();
  for (std::string_view name : phase_metric_names()) line += ',' + number(report.value(name));
  return line + '\n';
}

// A row begins with the number of its step.
bool is_our_row(std::string_view line, bool) {
  return !line.empty() && line[0] >= '0' && line[0] <= '9';
}

}  // namespace

std::string steps_csv(std::span<const StepReport> reports) {
  std::string lines = header();
  for (const StepReport& report : reports) lines += row(report);
  return lines;
}

std::unique_ptr<Sink> make_csv_sink(std::string path) {
  return make_line_file({.what = "the table",
                         .path = std::move(path),
                         .header = header(),
                         .line = row,
                         .ours = is_our_row,
                         .older_header = older_header(),
                         .older_line = older_row});
}

}  // namespace mfu
