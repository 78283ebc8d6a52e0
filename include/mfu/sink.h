// Output. to_text(), to_json() and their like turn reports into text, JSON (schemas in
// docs/formats/) and pages. A Sink sends the steps of a live run to a file or a service. A Server
// answers HTTP requests. None of these computes a number: they only format.
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

// How text is shown on a terminal.
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
// One line to show during a run: step, step time, tokens/s, MFU, HFU, data wait.
std::string live_line(const RunReport& report);

// How sentences name an option: --peak as on the command line, or peak= as in Python.
enum class Voice : std::uint8_t { command_line, python };

// Each is one line, without the newline.
std::string to_json(const PeakReport& report, Voice voice = Voice::command_line);  // mfu.peak/1
std::string to_json(const DoctorReport& report);                                   // mfu.doctor/1
std::string to_json(const Error& error);                                           // mfu.error/1
std::string to_json(const NeedReport& report, Voice voice = Voice::command_line);  // mfu.flops/1
std::string to_json(const ConversionReport& report);                               // mfu.convert/1
std::string to_json(const PlanReport& report);                                     // mfu.plan/1
std::string to_json(const ExplainReport& report,
                    Voice voice = Voice::command_line);                           // mfu.explain/1
std::string to_json(const PartReport& report);                                    // mfu.part/1
std::string to_json(const ComparisonReport& report);                              // mfu.compare/1
std::string to_json(const RunReport& report, Voice voice = Voice::command_line);  // mfu.run/1

// Steps of one model at many batches and contexts: as mfu.flops_many/1, and as a table with a
// chart.
std::string sweep_json(const std::vector<NeedReport>& reports);
std::string sweep_text(const std::vector<NeedReport>& reports, const TextStyle& style);

// For an issue or a chat. Names from the trace are escaped.
std::string to_markdown(const ExplainReport& report);
// Ledger lines, operators and kernels as rows of one table.
std::string to_csv(const ExplainReport& report);
// One page that works offline. It shows RankAttribution::timeline if there is one.
std::string to_html(const ExplainReport& report, Voice voice = Voice::command_line);

// Puts text for people (help, manual pages, scripts) into JSON of the schema mfu.text/1.
std::string text_to_json(std::string_view text);

// "989.4 TFLOP/s", "207.4 GFLOP/s", "1,979 TOP/s".
std::string rate_text(FlopRate rate, Precision precision);
// "51.47 GFLOP", or "3.8e25 FLOP" where no prefix is large enough.
std::string count_text(FlopCount count);
// "8,030,261,248".
std::string grouped(std::uint64_t count);
// "3.35 TB/s", "80 GB", with decimal prefixes.
std::string bandwidth_text(ByteRate rate);
std::string bytes_text(Bytes bytes);
// "284 ms", "12.3 µs".
std::string duration_text(double ns);

// Rewrites the options in an error or a warning as a reader types them: --peak, or peak= in Python.
std::string in_voice(std::string_view text, Voice voice);
// Notes and findings as sentences.
std::string words_of(const Note& note, Voice voice = Voice::command_line);
struct FindingWords {
  std::string title, fix;
  std::vector<std::string> evidence;
};
FindingWords finding_words(const Finding& finding, Voice voice = Voice::command_line);

// A place to which the steps of a live run go. One thread at a time may use it. It may block, so a
// training loop must not call it; Monitor has a thread for that.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual std::string name() const = 0;  // "TensorBoard in runs/today"
  // Prepares folders and files. It is called again after a failure.
  virtual Result<void> open() = 0;
  // Writes all reports or none, so that after a failure the same reports may be written again.
  // Files grow only by whole records, so the file of a killed process is valid as a whole.
  virtual Result<void> write(std::span<const StepReport> reports) = 0;
  virtual Result<void> close() = 0;
  // The shortest time between two writes. Reports are collected in between, because no reader of
  // this sink would notice more frequent writes.
  virtual std::chrono::nanoseconds pace() const { return {}; }
  // The most reports in one write().
  virtual std::size_t most_at_once() const { return 512; }
  // What the user should know, such as that a file was set aside. Each note is returned once.
  virtual std::vector<std::string> take_notes() { return {}; }
};

// One JSON object per line; training_log.json has this form too (docs/formats/training_log.md).
std::unique_ptr<Sink> make_jsonl_sink(std::string path);
std::unique_ptr<Sink> make_csv_sink(std::string path);
// Writes a new event file in `folder`.
std::unique_ptr<Sink> make_tensorboard_sink(std::string folder);
// Only the newest step, in Prometheus' text format, for node_exporter's textfile collector. The
// file is replaced in one step.
std::unique_ptr<Sink> make_prometheus_sink(std::string path);
struct WebTarget {
  std::string url;                     // "http://localhost:4318"
  std::vector<std::string> headers{};  // "Authorization: Bearer …"
  std::string run{};                   // MLflow: the run id. OTLP: service.name, by default "mfu"
  double patience_s = 10;              // for one request
};
// OTLP over HTTP with JSON bodies, to URL/v1/metrics; and MLflow's REST interface, to
// URL/api/2.0/mlflow/runs/log-batch. Both need libcurl, which is opened at run time. If it is
// missing, open() fails and says so.
std::unique_ptr<Sink> make_otlp_sink(WebTarget target);
std::unique_ptr<Sink> make_mlflow_sink(WebTarget target);
// One line per step for people: step, loss, MFU and its source, tokens per second.
std::unique_ptr<Sink> make_console_sink(std::FILE* stream);

// The texts that these sinks write.
std::string to_json(const StepReport& report);               // one line, without the newline
std::string steps_csv(std::span<const StepReport> reports);  // begins with the line of names
// `reports` has the newest report of each rank.
std::string prometheus_text(std::span<const StepReport> reports);
// A process of a run, and its newest step if it took one.
struct ServedProcess {
  const ProcessRecord* process = nullptr;
  std::optional<StepReport> newest{};
};
// The page of `mfu run --listen`: the newest step of each process under the same names, and totals
// by phase.
std::string prometheus_text(std::string_view run, const RunReport& report,
                            std::span<const ServedProcess> processes);
std::string otlp_body(std::span<const StepReport> reports, std::string_view service);
std::string mlflow_body(std::span<const StepReport> reports, std::string_view run_id);
std::string console_line(const StepReport& report);

struct WebRequest {
  std::string path;   // "/metrics", percent-decoded, without the query
  std::string query;  // what follows '?', not decoded
};

struct WebAnswer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;

  static WebAnswer not_found() { return {.status = 404, .body = "not found\n"}; }
};

struct ServeOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free port
  // On an address other than loopback every request must carry this token, as `Authorization:
  // Bearer TOKEN` or `?token=TOKEN`. Without a token listen() refuses such an address.
  std::string token{};
  // Called on the server's thread for each request. It must not block for long.
  std::function<WebAnswer(const WebRequest&)> answer{};
  // `/events` is a stream of server-sent events. For each listener this is called once per period,
  // with the number of the last event that the listener got (0 if none). It returns the next event,
  // or none.
  struct Event {
    std::uint64_t number = 0;
    std::string data;  // one line
  };
  std::function<std::optional<Event>(std::uint64_t last)> next_event{};
  std::chrono::milliseconds event_period{1000};
  std::size_t connections_most = 64;  // further ones are refused with status 503
};

class Server {
 public:
  // Binds the address and begins to answer, on its own thread. Fails with `io` if the address is in
  // use or not on this machine, and with `invalid_argument` if it is no address, or not loopback
  // and there is no token.
  static Result<std::unique_ptr<Server>> listen(ServeOptions options);
  virtual ~Server() = default;  // stops and closes every connection
  virtual std::uint16_t port() const = 0;
};

// Where to listen, as people write it: ":9464" (loopback), "0.0.0.0:9464", "[::1]:9464".
struct ListenAddress {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
};
// None if it has no port from 1 to 65535, or is a path.
std::optional<ListenAddress> parse_listen_address(std::string_view text);

// The port for this rank, so that ranks of one machine do not share one: the given port plus the
// local rank (LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID).
std::uint16_t local_rank_port(std::uint16_t port);

}  // namespace mfu
