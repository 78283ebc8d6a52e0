#include "run_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

extern char** environ;

namespace mfu::app {

namespace {

constexpr std::uintmax_t kMostTraceBytes = 1'000'000'000;

// Values of environment variables whose names hide something. A trace must not contain them.
std::vector<std::string> hidden_values() {
  std::vector<std::string> hidden;
  for (char** each = environ; *each != nullptr; ++each) {
    std::string entry = *each;
    std::size_t equals = entry.find('=');
    if (equals == std::string::npos || entry.size() - equals < 9) continue;
    std::string name = entry.substr(0, equals);
    bool telling = false;
    for (const char* word : {"TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "AUTH"}) {
      telling = telling || name.find(word) != std::string::npos;
    }
    if (telling) hidden.push_back(entry.substr(equals + 1));
  }
  return hidden;
}

std::string last_words(const RunRecord& record) {
  for (const ProcessRecord& each : record.processes) {
    if (const std::string* said = each.fact("explain")) return *said;
  }
  return "";
}

// Says why there is no window.
Note why_not(const RunRecord& record, const RunReport& report) {
  std::string said = last_words(record);
  if (said == "own_profiler") return {"explain_own_profiler", {}};
  if (said.starts_with("failed: ")) return {"explain_failed", {{"reason", said.substr(8)}}};
  if (!said.empty()) return {"explain_cut", {{"what", said}}};
  return {"explain_too_short", {{"steps", static_cast<std::int64_t>(report.steps)}}};
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

}  // namespace

std::vector<ProfiledWindow> seal_windows(std::vector<ProfiledWindow> windows,
                                         std::vector<Note>& notes) {
  std::vector<ProfiledWindow> sealed;
  std::vector<std::string> hidden = hidden_values();
  std::uintmax_t bytes = 0;
  std::int64_t left_out = 0;
  for (ProfiledWindow& each : windows) {
    std::error_code error;
    if (!each.problem.empty()) {
      notes.push_back({"explain_failed", {{"reason", each.problem}}});
      continue;
    }
    if (each.trace.ends_with(".json")) {
      Result<void> done = compress_trace(each.trace, each.trace + ".gz", hidden);
      if (!done.has_value()) {
        notes.push_back({"explain_failed", {{"reason", done.error().message}}});
        continue;
      }
      std::filesystem::remove(each.trace, error);
      each.trace += ".gz";
    }
    bytes += std::filesystem::file_size(each.trace, error);
    if (bytes > kMostTraceBytes) {
      std::filesystem::remove(each.trace, error);
      ++left_out;
      continue;
    }
    sealed.push_back(std::move(each));
  }
  if (left_out > 0) {
    notes.push_back(
        {"explain_too_large", {{"ranks", left_out}, {"bytes", bytes_text({kMostTraceBytes})}}});
  }
  return sealed;
}

Result<ExplainReport> explain_windows(const std::vector<ProfiledWindow>& windows,
                                      const RunQuestion& question, const Catalog& catalog) {
  AttributionOptions options;
  options.catalog = &catalog;
  options.timeline = true;
  options.device = question.device.device;
  options.peak = question.peak;
  options.precision = question.precision;
  options.window.whole_steps = true;
  options.counted = windows;
  std::vector<std::string> paths;
  for (const ProfiledWindow& each : windows) paths.push_back(each.trace);
  Traces traces = MFU_TRY(read_traces(paths, {}));
  return report_explanation(MFU_TRY(attribute(traces, options)));
}

void explain_run(Context& context, const std::string& directory, const RunRecord& record,
                 const RunQuestion& question, RunReport& report) {
  std::vector<ProfiledWindow> windows = read_windows(directory);
  std::erase_if(windows, [](const ProfiledWindow& each) { return each.number != 1; });
  bool none = windows.empty();
  windows = seal_windows(std::move(windows), report.notes);
  if (windows.empty()) {
    if (none) report.notes.push_back(why_not(record, report));
    return;
  }
  if (windows[0].steps < windows[0].wanted_steps) {
    report.notes.push_back({"explain_short",
                            {{"steps", static_cast<std::int64_t>(windows[0].steps)},
                             {"wanted", static_cast<std::int64_t>(windows[0].wanted_steps)}}});
  }
  Result<ExplainReport> explained = explain_windows(windows, question, context.catalog());
  if (!explained.has_value()) {
    report.notes.push_back({"explain_failed", {{"reason", explained.error().message}}});
    return;
  }
  RunExplanation files;
  for (const ProfiledWindow& each : windows) files.traces.push_back(each.trace);
  files.report = directory + "/report.html";
  if (!write_file(directory + "/explain.json", to_json(*explained) + "\n")) {
    context.warn(directory + "/explain.json: cannot be written");
  }
  if (!write_file(files.report, to_html(*explained))) files.report.clear();
  add_explanation(report, *explained, std::move(files));
}

}  // namespace mfu::app
