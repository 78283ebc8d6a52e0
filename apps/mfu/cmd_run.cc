#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "commands.h"
#include "launch.h"
#include "live_request.h"
#include "model_options.h"
#include "run_asked.h"
#include "run_explain.h"
#include "run_fellows.h"
#include "run_metrics.h"
#include "run_watch.h"
#include "stopper.h"
#include "terminal.h"

namespace mfu::app {

namespace {

struct RunOptions {
  std::vector<std::string> command;
  std::string directory, json_file, device, peak, type, model, step_marker, warmup, formulas;
  RunAsked asked;
  std::string listen;
  std::string drain;  // a region folder: store what is counted there, and run no command
  bool detached = false;
};

// The checked options. A wrong option is refused before the command starts.
struct Prepared {
  RunQuestion question;
  std::string device, asked;
  std::string formulas;  // for the processes: \x1f between fields, \x1e after each formula
  std::chrono::milliseconds grace{};
};

Result<std::string> formulas_text(const std::string& path) {
  std::string text;
  std::vector<UserFormula> formulas = MFU_TRY(read_formulas(path));
  for (const UserFormula& each : formulas) {
    text += each.name + '\x1f' + each.flop + '\x1f' + each.type;
    for (const auto& [name, meaning] : each.where) text += '\x1f' + name + '=' + meaning;
    text += '\x1e';
  }
  return text;
}

Result<Prepared> prepare(Context& context, const RunOptions& options) {
  Prepared prepared;
  if (!options.formulas.empty()) prepared.formulas = MFU_TRY(formulas_text(options.formulas));
  prepared.device = options.device;
  prepared.asked = MFU_TRY(options.asked.text());
  prepared.grace = MFU_TRY(options.asked.patience());
  if (!options.device.empty() && options.device != "cpu") {
    MFU_TRY(find_device(context.catalog(), options.device));
  }
  if (!options.peak.empty()) prepared.question.peak = MFU_TRY(parse_peak(options.peak));
  if (!options.type.empty()) prepared.question.precision = MFU_TRY(parse_type(options.type));
  if (!options.warmup.empty() && options.warmup != "0") {
    prepared.question.warmup = MFU_TRY(parse_whole_amount(options.warmup, "--warmup", 1e9));
  } else if (options.warmup == "0") {
    prepared.question.warmup = 0;
  }
  if (!options.model.empty()) {
    prepared.question.model = MFU_TRY(ModelOptions{}.load(options.model));
    for (const Note& note : prepared.question.model->notes) context.warn(words_of(note));
  }
  return prepared;
}

Environment environment_of(const RunPlaces& places, const RunOptions& options,
                           const std::string& asked, Context& context) {
  Environment environment{{"MFU_RUN_DIR", places.directory},
                          {"MFU_REGION_DIR", places.region_folder},
                          {"MFU_REGION_SPARE", places.spare_folder},
                          {"MFU_RUN_ID", places.run},
                          {"MFU_ATTEMPT", std::to_string(places.attempt)},
                          {"MFU_STEP_MARKER", options.step_marker},
                          {"MFU_EXPLAIN", asked}};
  std::string inject = inject_folder();
  if (inject.empty()) {
    context.warn(
        "the Python package mfu was not found beside this program, so nothing will be counted. Set "
        "MFU_PYTHON_DIR to the folder of the package");
    return environment;
  }
  const char* before = std::getenv("PYTHONPATH");
  std::string rest = before == nullptr || *before == 0 ? "" : ":" + std::string(before);
  environment["PYTHONPATH"] = inject + rest;
  environment["MFU_INJECT_DIR"] = inject;
  // A process that lost its environment reads it from here, if this launcher is among its
  // ancestors (python/_openmfu_start.py).
  std::ofstream file(places.region_folder + "/environment", std::ios::binary);
  for (const auto& [name, value] : environment) file << name << '=' << value << '\0';
  // The folder outlives a launcher that is killed, and the kernel may reuse its pid.
  file << "MFU_LAUNCHER_START=" << places.start_ticks << '\0';
  return environment;
}

// The command did not start, so the run leaves no files behind.
void discard(const RunPlaces& places) {
  std::error_code ignored;
  std::filesystem::remove_all(places.region_folder, ignored);
  std::filesystem::remove_all(places.spare_folder, ignored);
  std::filesystem::remove(places.file, ignored);
  std::filesystem::remove(places.directory, ignored);  // only if it is empty
}

Result<void> write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text << '\n';
  file.close();
  if (!file) return fail(ErrorCode::io, fmt::format("cannot write {}", path));
  return {};
}

RunReport make_report(Context& context, const RunRecord& record, Prepared& prepared) {
  Result<RunDevice> device = device_of_run(record, context.catalog(), prepared.device);
  if (device.has_value()) prepared.question.device = *device;
  return report_run(record, prepared.question);
}

// The summary for people goes to standard error. Standard output belongs to the program; with
// --json we add one last line to it.
void tell(Context& context, const RunOptions& options, const RunPlaces& places,
          const RunReport& report) {
  std::string json = to_json(report);
  auto write = [&](const std::string& path) {
    Result<void> written = write_text(path, json);
    if (!written.has_value()) context.warn(written.error().message);
  };
  write(places.directory + "/summary.json");
  if (!options.json_file.empty()) write(options.json_file);
  TextStyle style = terminal_style(context.settings().value("color"), 2);
  std::string text = to_text(report, style);
  text += fmt::format("run        {}\n", places.directory);
  std::fputs(("\n" + terminal_text(text, style)).c_str(), stderr);
  if (context.json()) context.print(json);
}

Result<int> launch(Context& context, const RunOptions& options) {
  Prepared prepared = MFU_TRY(prepare(context, options));
  RunPlaces places = MFU_TRY(create_run(options.directory, options.command));
  for (const std::string& note : places.notes) context.warn(note);
  Environment environment = environment_of(places, options, prepared.asked, context);
  if (!prepared.formulas.empty()) environment["MFU_FORMULAS"] = prepared.formulas;
  std::shared_ptr<RunMetrics> metrics;
  if (!options.listen.empty()) {
    Result<std::unique_ptr<RunMetrics>> listening = RunMetrics::listen(options.listen, places.run);
    if (!listening.has_value()) {
      discard(places);
      return Failure{listening.error()};
    }
    metrics = std::move(listening).value();
    context.warn("metrics at " + metrics->url());
  }
  Launch command;
  RunWatch watch(places, prepared.question, prepared.device, context.catalog(), metrics);
  if (auto problem = command.start(options.command, environment)) {
    watch.stop();
    discard(places);
    if (context.json()) {
      context.print(to_json(Error{ErrorCode::not_found, problem->message}));
    } else {
      context.warn(problem->message);
    }
    return problem->status;
  }
  std::shared_ptr<Stopper> stopper;
  if (options.asked.stops()) {
    stopper = std::make_shared<Stopper>(
        Stopper::Question{command.pid(), places.region_folder, prepared.grace});
  }
  watch.each_round([stopper, directory = places.directory](Drainer& drainer) {
    if (stopper) stopper->look(drainer.recent());
    carry_requests(directory, drainer);
  });
  RunEnd end = command.finish([&watch](int number) { watch.terminal_signal(number); });
  std::optional<RunRecord> record = watch.stop();
  if (!record) {
    context.warn(fmt::format("{}: the disk does not answer. What was counted is still in {}",
                             places.directory, places.region_folder));
    std::fflush(stdout);
    std::_Exit(end.status);
  }
  // This comes last, because other launchers take "has ended" to mean that all files are complete.
  Result<void> closed = close_run(places, end);
  if (!closed.has_value()) context.warn(closed.error().message);
  record->run.command = options.command;
  record->run.exit_status = end.status;
  record->run.signal = end.signal;
  record->run.ended = std::chrono::system_clock::now().time_since_epoch();
  if (!speaks_for_all(places, *record, [&](const RunRecord& mine) {
        return to_json(make_report(context, mine, prepared));
      })) {
    bool stopped = options.asked.stops() &&
                   make_report(context, *record, prepared).stopped_after_steps.has_value();
    return stopped ? 0 : end.status;
  }
  RunReport report = make_report(context, *record, prepared);
  if (options.asked.explains()) {
    explain_run(context, places.directory, *record, prepared.question, report);
  }
  tell(context, options, places, report);
  if (options.asked.stops() && !report.stopped_after_steps) {
    context.warn(fmt::format("the command ended by itself, before the {} steps of --steps",
                             options.asked.steps));
  }
  return report.stopped_after_steps ? 0 : end.status;
}

// Goes on as nobody's child. A Ray worker kills its children when it ends, and the summary is
// written after that.
void leave_parent() {
  if (fork() > 0) _exit(0);
}

// Serves a process that observes itself and has no launcher. Returns when all its processes have
// ended.
Result<int> drain(Context& context, const RunOptions& options) {
  if (options.directory.empty()) {
    return fail(ErrorCode::invalid_argument, "--drain needs --dir");
  }
  if (options.detached) leave_parent();
  RunPlaces places = places_of_launch(options.directory, options.drain);
  RunRecord record = drain_to_the_end(places);
  // A run whose process was killed goes on as its next attempt, so it is not closed.
  const std::vector<ProcessRecord>& all = record.processes;
  bool well = std::all_of(all.begin(), all.end(), [](const auto& each) { return each.ended; });
  if (well) static_cast<void>(close_run(places).has_value());  // fails only without a file to close
  auto text = [&](const RunRecord& each) {
    Prepared prepared;
    return to_json(make_report(context, each, prepared));
  };
  if (!speaks_for_all(places, record, text)) return kGood;
  Result<void> written = write_text(places.directory + "/summary.json", text(record));
  if (!written.has_value()) return Failure{written.error()};
  return kGood;
}

Result<int> run(Context& context, const RunOptions& options) {
  if (!options.drain.empty()) return drain(context, options);
  if (options.command.empty()) {
    return fail(ErrorCode::invalid_argument,
                "name a command to run, as in mfu run -- python train.py");
  }
  return launch(context, options);
}

CommandText run_text() {
  return {
      "run",
      "What is the MFU of my program?",
      "Runs COMMAND unchanged and counts what its PyTorch processes compute: every matmul-class "
      "operator, by data type, at a cost too small to measure. It works with python, python -m, "
      "console scripts, torchrun, accelerate and worker processes started by fork or spawn. The "
      "command keeps its terminal, input, output, signals and exit status.\n\n"
      "A step ends where an optimizer step ends. On a terminal, one line shows the latest steps. "
      "At the end a summary goes to standard error: MFU and HFU with their peak, where the time of "
      "a step went, what was not counted, the ranks side by side, and what to change first. The "
      "run directory keeps every step (docs/formats/run.md) and summary.json.\n\n"
      "MFU is the model's FLOPs (without recomputation) divided by step time and by the dense peak "
      "of the devices. Warm-up steps are left out. Ranks that share a processor count as one "
      "device.",
      {{"mfu run -- python train.py", "the MFU of a training program"},
       {"mfu run -- torchrun --nproc-per-node 8 train.py", "all ranks, one summary"},
       {"srun mfu run -- python train.py", "one launcher per task, but one run and one summary"},
       {"mfu run --dir /shared/run -- torchrun --nnodes 2 … train.py",
        "the same command on every node makes one run"},
       {"mfu run --dir runs/a --json-file a.json -- python train.py --lr 1e-3",
        "choose the run directory, and write a file for a script"},
       {"mfu run --explain -- python train.py", "also say why: profile and explain three steps"},
       {"mfu run --steps 20 -- python train.py", "stop after twenty steps"},
       {"mfu run --step-marker generate -- python serve.py",
        "a program without an optimizer: a step is a range of that name"}}};
}

}  // namespace

Command run_command() {
  auto options = std::make_shared<RunOptions>();
  auto add = [options](CLI::App& app) {
    add_value(app, "COMMAND", "COMMAND", options->command, "The command to run, after --");
    add_value(app, "--dir", "DIR", options->directory,
              "Run directory (default: a folder in ./mfu-runs/ named after program and time)");
    add_value(app, "--json-file", "PATH", options->json_file,
              "Write the JSON summary to this file");
    add_value(app, "--device", "NAME", options->device,
              "Compare with the peak of this device (default: the one the program runs on)");
    add_value(app, "--peak", "FLOP_PER_S", options->peak,
              "Peak of one device in FLOP/s; wins over --device");
    add_value(app, "--dtype", "TYPE", options->type,
              "Compare all FLOPs with the peak of this data type");
    add_value(app, "--model", "CONFIG", options->model,
              "config.json of the model: attention that runs as plain matmuls is then counted "
              "by its exact area");
    add_value(
        app, "--step-marker", "NAME", options->step_marker,
        "For a program without an optimizer: name of the record_function range that is a step");
    add_value(app, "--formulas", "FILE", options->formulas,
              "YAML with FLOP formulas for operators and Triton kernels (docs/coverage.md)");
    add_value(app, "--warmup", "N", options->warmup,
              "Steps to ignore at the start of each rank (default: detected from step times)");
    options->asked.add_to(app);
    add_value(app, "--listen", "HOST:PORT", options->listen,
              "Serve /metrics for Prometheus while the command runs; an address other than "
              "loopback needs a token in MFU_METRICS_TOKEN");
    app.add_option("--drain", options->drain, "")->group("");
    app.add_flag("--detached", options->detached, "")->group("");
  };
  return {run_text(), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
