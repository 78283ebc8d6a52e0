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

// The steps that `mfu run` counted, in the form in which a monitor reports steps.
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
  for (const Note& note : question.device.notes) ended.notes.push_back(words_of(note));
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
              fmt::format("{} is not a run directory: it has neither a monitor's steps-*.json nor "
                          "the run.json of mfu run",
                          options.run));
}

// `--jsonl` may stand without a file, and then takes the next word for its file. If that word is a
// folder, it was meant as the run directory.
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
                "name a run directory, as in mfu export RUN --tensorboard DIR");
  }
  bool json = options.jsonl == kStdout, csv = options.csv == kStdout;
  if (json && csv) {
    return fail(ErrorCode::invalid_argument,
                "--jsonl and --csv cannot both go to standard output. Name a file for one of them");
  }
  if ((json || csv) && context.json()) {
    return fail(
        ErrorCode::invalid_argument,
        "with --json the summary goes to standard output. Name a file after --jsonl or --csv");
  }
  if (!options.jsonl.empty() && !options.log.empty()) {
    return fail(ErrorCode::invalid_argument,
                "--jsonl and --training-log write the same lines. Give only one");
  }
  const ExportTargets& files = options.targets;
  if (options.jsonl.empty() && options.log.empty() && options.csv.empty() &&
      files.tensorboard.empty() && files.prometheus.empty()) {
    return fail(ErrorCode::invalid_argument,
                "say what to write: --jsonl, --csv, --training-log FILE, --tensorboard DIR or "
                "--prometheus FILE. See mfu export --help");
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
  return {
      "export",
      "How do I get a run into a log, a table or TensorBoard?",
      "Writes out the steps of a run directory. These are the steps that a monitor logged, all of "
      "them even if its process was killed and its own files end too early. If there is no "
      "monitor, they are the steps that mfu run counted. The lines are the same as the ones "
      "written while the run went on.\n\n"
      "If --jsonl or --csv has no file, it writes to standard output. An existing file is replaced "
      "only with --force. If there are several ranks, TensorBoard gets one folder per rank.",
      {{"mfu export outputs --training-log training_log.json --tensorboard board",
        "every step of a run that was killed"},
       {"mfu export run --jsonl | jq '.[\"perf/mfu\"]'", "one JSON object per step"},
       {"mfu export mfu-runs/train-1 --csv steps.csv --device h100-sxm",
        "what mfu run counted, against the peak of that device"}}};
}

}  // namespace

Command export_command() {
  auto options = std::make_shared<ExportOptions>();
  auto add = [options](CLI::App& app) {
    add_value(app, "RUN", "RUN", options->run, "Run directory, or output folder of a monitor");
    auto file_or_stdout = [&app](const char* name, std::string& to, const char* meaning) {
      add_value(app, name, "FILE", to, meaning)->expected(0, 1)->default_str(kStdout);
    };
    file_or_stdout("--jsonl", options->jsonl, "Write JSON Lines, one object per step");
    file_or_stdout("--csv", options->csv, "Write a table, one row per step");
    add_value(app, "--training-log", "FILE", options->log,
              "Write a training_log.json (docs/formats/training_log.md)");
    add_value(app, "--tensorboard", "DIR", options->targets.tensorboard,
              "Write event files for TensorBoard");
    add_value(app, "--prometheus", "FILE", options->targets.prometheus,
              "Write the newest step for node_exporter's textfile collector");
    app.add_flag("--force", options->targets.replace, "Replace files that exist");
    add_value(app, "--device", "NAME", options->device,
              "For a directory of mfu run: compare with the peak of this device");
    add_value(app, "--peak", "FLOP_PER_S", options->peak,
              "Peak of one device in FLOP/s; wins over --device");
    add_value(app, "--dtype", "TYPE", options->type,
              "Compare all FLOPs with the peak of this data type");
  };
  return {export_text(), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
