#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "commands.h"
#include "explain_options.h"
#include "live_request.h"
#include "model_options.h"
#include "run_asked.h"
#include "run_explain.h"

namespace mfu::app {

namespace {

struct ExplainCommand {
  ExplainOptions explain;
  std::vector<std::string> paths;
  std::string page, partial, formulas, live, steps = "3", timeout = "60s";
  bool markdown = false, csv = false;
};

Result<bool> write_page(const std::string& path, const ExplainReport& report) {
  std::ofstream file(path, std::ios::binary);
  file << to_html(report);
  file.close();
  if (!file) {
    return fail(ErrorCode::io, fmt::format("--html {}: cannot be written: {}", path,
                                           std::generic_category().message(errno)));
  }
  return true;
}

// Explains a program that is running, named by its run directory.
Result<ExplainReport> explain_live(Context& context, const ExplainCommand& options) {
  if (!options.paths.empty()) {
    return fail(ErrorCode::invalid_argument, "give --live or traces, not both");
  }
  LiveQuestion question{.directory = options.live};
  question.steps = MFU_TRY(parse_whole_amount(options.steps, "--steps", 255));
  question.patience = MFU_TRY(parse_patience(options.timeout, "--timeout"));
  std::vector<ProfiledWindow> windows = MFU_TRY(ask_for_windows(question));
  std::vector<Note> notes;
  windows = seal_windows(std::move(windows), notes);
  if (windows.empty()) {
    return fail(ErrorCode::io, notes.empty() ? "no trace was written" : words_of(notes[0]));
  }
  RunRecord record = MFU_TRY(read_run(options.live));
  RunQuestion asked;
  if (!options.explain.peak.empty()) asked.peak = MFU_TRY(parse_peak(options.explain.peak));
  asked.device = MFU_TRY(device_of_run(record, context.catalog(), options.explain.device));
  ExplainReport report = MFU_TRY(explain_windows(windows, asked, context.catalog()));
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  return report;
}

// Writes what this machine contributes, for a merge elsewhere.
Result<int> write_part(Context& context, const ExplainCommand& options) {
  const ExplainOptions& asked = options.explain;
  bool later = !asked.device.empty() || !asked.peak.empty() || !asked.type.empty() ||
               !asked.model.empty() || !asked.tokens.empty();
  if (later || !options.page.empty() || options.markdown || options.csv || !options.live.empty()) {
    return fail(ErrorCode::invalid_argument,
                "--partial: only --window and --formulas go with it. Give other options to the "
                "merge: mfu explain *.mfu-part");
  }
  if (!asked.name.empty() && options.paths.size() != 1) {
    return fail(ErrorCode::invalid_argument, "--as gives a name to one trace. Name only one");
  }
  AttributionOptions question = MFU_TRY(asked.attribution(context));
  question.timeline = true;
  Gathered gathered = MFU_TRY(asked.gather(context, options.paths, question));
  const Parts& parts = gathered.parts;
  PartReport report{options.partial, parts.traces(), 0, parts.json_bytes(), parts.refused()};
  report.bytes = MFU_TRY(write_parts(parts, options.partial));
  if (context.json()) {
    context.print(to_json(report));
  } else {
    context.print(fmt::format("wrote {}: {} trace{}, {} of JSON in {}\n", report.path,
                              report.traces, report.traces == 1 ? "" : "s",
                              bytes_text({report.json_bytes}), bytes_text({report.bytes})));
  }
  return kGood;
}

Result<int> run(Context& context, const ExplainCommand& options) {
  if (options.paths.empty() && options.live.empty()) {
    return fail(
        ErrorCode::invalid_argument,
        "name a profiler trace: a .json or .json.gz of torch.profiler, or a folder of them; "
        "- reads standard input");
  }
  if (options.markdown && options.csv) {
    return fail(ErrorCode::invalid_argument, "give --markdown or --csv, not both");
  }
  if (!options.formulas.empty()) MFU_TRY(read_formulas(options.formulas));
  if (!options.partial.empty()) return write_part(context, options);
  ExplainOptions question = options.explain;
  question.timeline = !options.page.empty();
  ExplainReport report = MFU_TRY(options.live.empty() ? question.explain(context, options.paths)
                                                      : explain_live(context, options));
  if (!options.page.empty()) {
    MFU_TRY(write_page(options.page, report));
    context.warn("wrote " + options.page);
  }
  if (context.json()) {
    context.print(to_json(report));
  } else if (options.markdown) {
    context.print(to_markdown(report));
  } else if (options.csv) {
    context.print(to_csv(report));
  } else {
    context.print(to_text(report, context.style()));
  }
  return kGood;
}

}  // namespace

Command explain_command() {
  auto options = std::make_shared<ExplainCommand>();
  CommandText text{
      "explain",
      "Why is it low? Where each nanosecond of a profiler trace went",
      "Reads traces of torch.profiler (Kineto, plain, gzip or zstd; one file per rank, or a "
      "folder) and gives MFU, a ledger whose lines add up to the window to the nanosecond, and "
      "what to change, ranked by what it could win at most.\n\n"
      "The device's peak is looked up by the name in the trace; record_shapes=True is needed for "
      "FLOPs, with_stack=True for lines of code. A trace without device events is explained with "
      "the CPU as the device. docs/ledger.md has the rules.",
      {{"mfu explain trace.json.gz", "MFU, where the time went, what to change"},
       {"mfu explain trace.json.gz --html report.html", "the same as a page, with a timeline"},
       {"mfu explain traces/", "all ranks of a job together: who waits for whom"},
       {"mfu explain traces/ --partial node0.mfu-part", "on each machine: its part of the job"},
       {"mfu explain *.mfu-part", "all parts together, as if the traces were here"},
       {"mfu explain s3://bucket/run/ --engine ray", "a thousand ranks, read by Ray's workers"},
       {"mfu explain --live mfu-runs/train-1", "a program that runs now, under mfu run"},
       {"mfu explain trace.json --window all --json", "everything, for a script"},
       {"mfu explain trace.json.gz --device \"NVIDIA H100 80GB HBM3\" --markdown",
        "for an issue, with the device named"}}};
  auto add = [options](CLI::App& app) {
    add_value(app, "trace", "TRACE…", options->paths,
              "Trace files, parts, or folders of them; -: standard input");
    options->explain.add_to(app);
    add_value(app, "--live", "RUN", options->live,
              "Explain a program that runs now: its run directory");
    add_value(app, "--steps", "N", options->steps, "With --live: steps to profile (default 3)");
    add_value(app, "--timeout", "TIME", options->timeout,
              "With --live: how long to wait for them (default 60s)");
    add_value(app, "--formulas", "FILE", options->formulas,
              "YAML with FLOP formulas for operators (docs/coverage.md)");
    add_value(app, "--partial", "OUT", options->partial,
              "Write a small part for these traces, to merge with those of other machines");
    add_value(app, "--as", "NAME", options->explain.name,
              "With --partial and one trace: its name in reports");
    add_value(app, "--engine", "ENGINE", options->explain.engine,
              "Who reads the traces: local (default), or ray or ray=ADDRESS: Ray's workers, where "
              "the files are. s3://… and other addresses are read through fsspec");
    add_value(app, "--html", "PATH", options->page, "Also write one page that works offline");
    app.add_flag("--markdown", options->markdown, "Print Markdown, for an issue or a chat");
    app.add_flag("--csv", options->csv, "Print ledger, operators and kernels as one CSV table");
  };
  return {std::move(text), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
