// Reports as text and JSON (schemas in docs/formats/). A sink formats, it never computes.
//
//   std::fputs(mfu::to_text(report, {.width = 100}).c_str(), stdout);
//
// Steps of a live run go to a Sink each:
//
//   std::unique_ptr<mfu::Sink> sink = mfu::make_tensorboard_sink("runs/today");
//   auto opened = sink->open();
//   auto written = sink->write(std::span(&report, 1));
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/comparison.h"
#include "mfu/report.h"
#include "mfu/result.h"
#include "mfu/run.h"
#include "mfu/settings.h"
#include "mfu/step_report.h"
#include "mfu/table.h"

namespace mfu {

std::string to_text(const PeakReport& report, const TextStyle& style);
std::string to_text(const DoctorReport& report, const TextStyle& style);
std::string to_text(const NeedReport& report, const TextStyle& style);
std::string to_text(const ConversionReport& report, const TextStyle& style);
std::string to_text(const PlanReport& report, const TextStyle& style);
std::string to_text(const ExplainReport& report, const TextStyle& style);
std::string to_text(const ComparisonReport& report, const TextStyle& style);
std::string to_text(const RunReport& report, const TextStyle& style);
// One line while it runs: step, step time, tokens/s, MFU, HFU, data wait.
std::string live_line(const RunReport& report);

// Whose options a sentence names: --peak on the command line, peak= in Python.
enum class Voice : std::uint8_t { command_line, python };

// One line each, without the newline.
std::string to_json(const PeakReport& report);                                     // mfu.peak/1
std::string to_json(const DoctorReport& report);                                   // mfu.doctor/1
std::string to_json(const Error& error);                                           // mfu.error/1
std::string to_json(const NeedReport& report, Voice voice = Voice::command_line);  // mfu.flops/1
std::string to_json(const ConversionReport& report);                               // mfu.convert/1
std::string to_json(const PlanReport& report);                                     // mfu.plan/1
std::string to_json(const ExplainReport& report,
                    Voice voice = Voice::command_line);                           // mfu.explain/1
std::string to_json(const ComparisonReport& report);                              // mfu.compare/1
std::string to_json(const RunReport& report, Voice voice = Voice::command_line);  // mfu.run/1
// mfu.config/1
std::string to_json(const std::vector<SettingKey>& keys, const Settings& settings,
                    const std::string& path);

// For an issue or a chat; names from the trace are escaped.
std::string to_markdown(const ExplainReport& report);
// Ledger lines, operators and kernels as rows of one table.
std::string to_csv(const ExplainReport& report);
// One page that works offline; it shows RankAttribution::timeline where that was asked for.
std::string to_html(const ExplainReport& report);

// Text for people where a script asked for JSON: help, manual pages, scripts. mfu.text/1
std::string text_to_json(std::string_view text);

// "989.4 TFLOP/s", "207.4 GFLOP/s", "1,979 TOP/s".
std::string rate_text(FlopRate rate, Precision precision);
// "51.47 GFLOP", "3.8e25 FLOP" beyond the prefixes.
std::string count_text(FlopCount count);
// "8,030,261,248".
std::string grouped(std::uint64_t count);
// "3.35 TB/s", "80 GB", decimal.
std::string bandwidth_text(ByteRate rate);
std::string bytes_text(Bytes bytes);
// "284 ms", "12.3 µs".
std::string duration_text(double ns);

std::string words_of(const Note& note, Voice voice = Voice::command_line);
struct FindingWords {
  std::string title, fix;
  std::vector<std::string> evidence;
};
FindingWords finding_words(const Finding& finding, Voice voice = Voice::command_line);

// Where the steps of a live run go. Used by one thread; may block, which is why no training loop
// calls it (Monitor has a thread for that).
class Sink {
 public:
  virtual ~Sink() = default;
  virtual std::string name() const = 0;  // "TensorBoard in runs/today"
  // Makes folders and files ready; called again after a failure.
  virtual Result<void> open() = 0;
  // All of them or none: after a failure the same may be written again. Files only ever grow by
  // whole records, so that what a killed process leaves is a valid prefix.
  virtual Result<void> write(std::span<const StepReport> reports) = 0;
  virtual Result<void> close() = 0;
  // Written more often than this, nobody who reads it sees more: reports are gathered meanwhile.
  virtual std::chrono::nanoseconds pace() const { return {}; }
  // At most so many reports in one write().
  virtual std::size_t most_at_once() const { return 512; }
  // What it did that its owner wants to know, such as a file it set aside; each is given once.
  virtual std::vector<std::string> take_notes() { return {}; }
};

// One JSON object a line (docs/formats/training_log.md); also the documented training_log.json.
std::unique_ptr<Sink> make_jsonl_sink(std::string path);
std::unique_ptr<Sink> make_csv_sink(std::string path);
// An event file of its own in `folder`.
std::unique_ptr<Sink> make_tensorboard_sink(std::string folder);
// The newest step, in the text format of Prometheus, replaced at once (node_exporter's textfile).
std::unique_ptr<Sink> make_prometheus_sink(std::string path);
struct WebTarget {
  std::string url;                     // "http://localhost:4318"
  std::vector<std::string> headers{};  // "Authorization: Bearer …"
  std::string run{};                   // MLflow's run id; OTLP: service.name, "mfu" where empty
  double patience_s = 10;
};
// OTLP/HTTP with JSON bodies, to URL/v1/metrics; MLflow's REST, to
// URL/api/2.0/mlflow/runs/log-batch. Both need libcurl, opened at run time: open() says so where it
// is not there.
std::unique_ptr<Sink> make_otlp_sink(WebTarget target);
std::unique_ptr<Sink> make_mlflow_sink(WebTarget target);
// A line for people: step, loss, MFU and where it comes from, tokens a second.
std::unique_ptr<Sink> make_console_sink(std::FILE* stream);

// What those write.
std::string to_json(const StepReport& report);               // one line, without the newline
std::string steps_csv(std::span<const StepReport> reports);  // with the line of names
// One report a rank, the newest.
std::string prometheus_text(std::span<const StepReport> reports);
std::string otlp_body(std::span<const StepReport> reports, std::string_view service);
std::string mlflow_body(std::span<const StepReport> reports, std::string_view run_id);
std::string console_line(const StepReport& report);

}  // namespace mfu
