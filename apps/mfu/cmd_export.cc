#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <filesystem>
#include <span>
#include <utility>

#include "commands.h"
#include "model_options.h"

namespace mfu::app {

namespace {

constexpr const char* kStdout = "-";

struct ExportOptions {
  std::string run, jsonl, csv, log, device, peak, type;
  ExportTargets targets;
};

// What `mfu run` counted, as a monitor would have reported it.
Result<StepStream> counted_steps(Context& context, const ExportOptions& options) {
  RunSteps run = MFU_TRY(open_run(options.run));
  const RunRecord& record = run.record;
  RunQuestion question;
  question.device = MFU_TRY(device_of_run(record, context.catalog(), options.device));
  if (!options.peak.empty()) question.peak = MFU_TRY(parse_peak(options.peak));
  if (!options.type.empty()) question.precision = MFU_TRY(parse_type(options.type));
  StepStream stream;
  RecordedSteps ended{.notes = record.notes};
  for (const ProcessRecord& each : record.processes) {
    ended.dropped += each.steps_dropped;
    stream.ranks.insert(each.rank);
  }
  for (const std::string& note : question.device.notes) ended.notes.push_back(note);
  stream.read = [run, question, ended](const TakeSteps& take) -> Result<RecordedSteps> {
    MFU_TRY(report_run_steps(run, question, take));
    return ended;
  };
  return stream;
}

Result<StepStream> open_steps(Context& context, const ExportOptions& options) {
  Result<StepStream> logged = open_recorded_steps(options.run);
  if (logged.has_value() || logged.error().code != ErrorCode::not_found) return logged;
  if (!std::filesystem::is_directory(options.run)) return logged;
  Result<StepStream> counted = counted_steps(context, options);
  if (counted.has_value() || counted.error().code != ErrorCode::malformed) return counted;
  return fail(ErrorCode::not_found,
              fmt::format("{} is no run directory: neither a monitor's (steps-*.json) nor one of "
                          "mfu run (run.json)",
                          options.run));
}

// `--jsonl` without a file takes the word behind it: where that is the run, it is the run.
void settle_words(ExportOptions& options) {
  for (std::string* file : {&options.jsonl, &options.csv}) {
    std::error_code error;
    if (!options.run.empty() || !std::filesystem::is_directory(*file, error)) continue;
    options.run = *file;
    *file = kStdout;
  }
}

Result<void> check(const Context& context, const ExportOptions& options) {
  if (options.run.empty()) {
    return fail(ErrorCode::invalid_argument,
                "name the run directory: mfu export RUN --tensorboard DIR");
  }
  bool json = options.jsonl == kStdout, csv = options.csv == kStdout;
  if (json && csv) {
    return fail(ErrorCode::invalid_argument,
                "--jsonl and --csv cannot both go to standard output: name a file for one");
  }
  if ((json || csv) && context.json()) {
    return fail(
        ErrorCode::invalid_argument,
        "with --json standard output is the summary's: name a file behind --jsonl or --csv");
  }
  if (!options.jsonl.empty() && !options.log.empty()) {
    return fail(ErrorCode::invalid_argument, "--jsonl and --training-log write the same: name one");
  }
  const ExportTargets& files = options.targets;
  if (options.jsonl.empty() && options.log.empty() && options.csv.empty() &&
      files.tensorboard.empty() && files.prometheus.empty()) {
    return fail(ErrorCode::invalid_argument,
                "what to? --jsonl, --csv, --training-log FILE, --tensorboard DIR, --prometheus "
                "FILE; mfu export --help says more");
  }
  return {};
}

Result<int> run(Context& context, ExportOptions options) {
  settle_words(options);
  MFU_TRY(check(context, options));
  StepStream stream = MFU_TRY(open_steps(context, options));
  bool json = options.jsonl == kStdout, csv = options.csv == kStdout;
  options.targets.jsonl = options.log.empty() && !json ? options.jsonl : options.log;
  options.targets.csv = csv ? "" : options.csv;
  bool headed = false;
  auto print = [&](std::span<const StepReport> reports) -> Result<void> {
    if (json) {
      for (const StepReport& step : reports) context.print(to_json(step));
    } else if (csv) {
      std::string text = steps_csv(reports);
      context.print(text.substr(std::exchange(headed, true) ? text.find('\n') + 1 : 0));
    }
    return {};
  };
  ExportReport report = MFU_TRY(export_stream(stream, options.targets, print));
  report.run = options.run;
  for (const std::string& note : report.notes) context.warn(note);
  if (csv && !headed) context.print(steps_csv({}));
  if (!json && !csv) context.print(context.json() ? to_json(report) : to_text(report));
  return kGood;
}

CommandText export_text() {
  return {"export",
          "A run directory as a log, a table, TensorBoard's files",
          "Writes the steps of a run directory out: those that a monitor logged in the loop, "
          "also where its process was killed and its own files end too early; else those that "
          "mfu run counted. The same steps give the same lines as while the run went on.\n\n"
          "Without a file, --jsonl and --csv go to standard output. A file that is there is only "
          "replaced with --force. Where there are several ranks, TensorBoard gets a folder each.",
          {{"mfu export outputs --training-log training_log.json --tensorboard board",
            "what a killed run left behind, whole"},
           {"mfu export run --jsonl | jq '.[\"perf/mfu\"]'", "one object a step"},
           {"mfu export mfu-runs/train-1 --csv steps.csv --device h100-sxm",
            "what mfu run counted, against that peak"}}};
}

}  // namespace

Command export_command() {
  auto options = std::make_shared<ExportOptions>();
  auto add = [options](CLI::App& app) {
    app.add_option("RUN", options->run, "Run directory, or a monitor's output folder")
        ->type_name("RUN");
    auto file_or_stdout = [&app](const char* name, std::string& to, const char* meaning) {
      app.add_option(name, to, meaning)->type_name("FILE")->expected(0, 1)->default_str(kStdout);
    };
    file_or_stdout("--jsonl", options->jsonl, "JSON Lines, one object a step");
    file_or_stdout("--csv", options->csv, "A table, one row a step");
    app.add_option("--training-log", options->log, "The documented training_log.json")
        ->type_name("FILE");
    app.add_option("--tensorboard", options->targets.tensorboard, "Event files for TensorBoard")
        ->type_name("DIR");
    app.add_option("--prometheus", options->targets.prometheus,
                   "The newest step, for node_exporter's textfile collector")
        ->type_name("FILE");
    app.add_flag("--force", options->targets.replace, "Replace files that are there");
    app.add_option("--device", options->device, "Device whose peak counts (mfu run directories)")
        ->type_name("NAME");
    app.add_option("--peak", options->peak, "Peak of one device in FLOP/s; wins over --device")
        ->type_name("FLOP_PER_S");
    app.add_option("--dtype", options->type, "Hold all FLOPs against this type's peak")
        ->type_name("TYPE");
  };
  return {export_text(), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
