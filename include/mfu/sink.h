// Reports as text, JSON and pages (schemas in docs/formats/), steps of a live run to where they are
// looked at, and a server that hands such texts over HTTP. A sink formats, it never computes.
//
//   mfu::PeakReport report =
//       mfu::report_devices(mfu::match_devices(mfu::Catalog::builtin(), "h100"));
//   std::fputs(mfu::to_text(report, {.width = 100}).c_str(), stdout);
//   std::unique_ptr<mfu::Sink> sink = mfu::make_tensorboard_sink("runs/today");
//   mfu::Result<void> opened = sink->open();  // then write() steps, and close()
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/report.h"
#include "mfu/result.h"
#include "mfu/run.h"
#include "mfu/steps.h"

namespace mfu {

// How text goes to a person's terminal.
struct TextStyle {
  std::size_t width = 80;
  bool color = false;
  bool unicode = true;
};

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

// Many steps of a model, at batches and contexts: mfu.flops_many/1, and a table with a chart.
std::string sweep_json(const std::vector<NeedReport>& reports);
std::string sweep_text(const std::vector<NeedReport>& reports, const TextStyle& style);

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
// A process of a run and its newest step, where it took one.
struct ServedProcess {
  const ProcessRecord* process = nullptr;
  std::optional<StepReport> newest{};
};
// What a launcher serves: its processes' newest steps by the same names, and totals by phase.
std::string prometheus_text(std::string_view run, const RunReport& report,
                            std::span<const ServedProcess> processes);
std::string otlp_body(std::span<const StepReport> reports, std::string_view service);
std::string mlflow_body(std::span<const StepReport> reports, std::string_view run_id);
std::string console_line(const StepReport& report);

struct WebRequest {
  std::string path;   // "/metrics", percent-decoded, without the query
  std::string query;  // what follows '?', as sent
};

struct WebAnswer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;

  static WebAnswer not_found() { return {.status = 404, .body = "not found\n"}; }
};

struct ServeOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: a free one
  // Beyond loopback every request needs it: `Authorization: Bearer TOKEN` or `?token=TOKEN`. Empty
  // there: listen() fails and says so.
  std::string token{};
  // Called on the server's thread for each request. It must not block for long.
  std::function<WebAnswer(const WebRequest&)> answer{};
  // `/events` is a stream of server-sent events: called once a period for each listener with the
  // number of the last event it got (0: none); gives the next one, or none.
  struct Event {
    std::uint64_t number = 0;
    std::string data;  // one line
  };
  std::function<std::optional<Event>(std::uint64_t last)> next_event{};
  std::chrono::milliseconds event_period{1000};
  std::size_t connections_most = 64;  // more are turned away with 503
};

class Server {
 public:
  // Binds and begins to answer on a thread of its own. `io` where the address is taken or not ours,
  // `invalid_argument` for an address that is none, or one beyond loopback without a token.
  static Result<std::unique_ptr<Server>> listen(ServeOptions options);
  virtual ~Server() = default;  // stops, closing every connection
  virtual std::uint16_t port() const = 0;
};

// Where to listen, as people write it: ":9464" (loopback), "0.0.0.0:9464", "[::1]:9464".
struct ListenAddress {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
};
// None where it has no port from 1 to 65535, or is a path.
std::optional<ListenAddress> parse_listen_address(std::string_view text);

// Ranks of one machine listen on ports of their own: the given one, and as many more as their local
// rank says (LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID).
std::uint16_t local_rank_port(std::uint16_t port);

}  // namespace mfu
