#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <filesystem>

#include "commands.h"
#include "explain_options.h"
#include "model_options.h"

namespace mfu::app {

namespace {

struct CompareOptions {
  ExplainOptions explain;
  std::string before, after, fail_over;
};

bool is_run(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path + "/run.json", error)) return true;
  for (std::filesystem::directory_iterator each(path, error), end; !error && each != end;
       each.increment(error)) {
    if (each->path().extension() == ".steps") return true;
  }
  return false;
}

Result<RunReport> report_at(Context& context, const ExplainOptions& options,
                            const std::string& path) {
  RunRecord record = MFU_TRY(read_run(path));
  AttributionOptions chosen = MFU_TRY(options.attribution(context));
  RunQuestion question;
  question.device = MFU_TRY(device_of_run(record, context.catalog(), options.device));
  question.peak = chosen.peak;
  question.precision = chosen.precision;
  return report_run(record, question);
}

Result<ComparisonReport> compared(Context& context, const CompareOptions& options,
                                  std::optional<double> fail_over) {
  bool run_before = is_run(options.before);
  if (run_before != is_run(options.after)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is a run directory of mfu run, {} is not: compare two of a kind",
                            run_before ? options.before : options.after,
                            run_before ? options.after : options.before));
  }
  if (run_before) {
    RunReport before = MFU_TRY(report_at(context, options.explain, options.before));
    RunReport after = MFU_TRY(report_at(context, options.explain, options.after));
    return report_comparison(before, after, fail_over);
  }
  ExplainReport before = MFU_TRY(options.explain.explain(context, {options.before}));
  ExplainReport after = MFU_TRY(options.explain.explain(context, {options.after}));
  return report_comparison(before, after, fail_over);
}

Result<int> run(Context& context, const CompareOptions& options) {
  if (options.before.empty() || options.after.empty()) {
    return fail(ErrorCode::invalid_argument,
                "name two traces or run directories: the one before, the one after");
  }
  std::optional<double> fail_over;
  if (!options.fail_over.empty()) {
    fail_over = MFU_TRY(parse_share(options.fail_over, "--fail-over")).value;
  }
  ComparisonReport report = MFU_TRY(compared(context, options, fail_over));
  report.before = options.before;
  report.after = options.after;
  context.print(context.json() ? to_json(report) : to_text(report, context.style()));
  return report.failed ? kThreshold : kGood;
}

}  // namespace

Command compare_command() {
  auto options = std::make_shared<CompareOptions>();
  CommandText text{
      "compare",
      "What got better or worse between two traces or runs",
      "Explains both and sets their ledgers side by side, by step where both mark steps. With "
      "--fail-over, exit status 1 where the second is slower by more than that. Run directories of "
      "mfu run are compared by their median step and the parts of it that were timed.",
      {{"mfu compare before.json.gz after.json.gz", "ledgers side by side"},
       {"mfu compare mfu-runs/main mfu-runs/branch", "two runs of mfu run"},
       {"mfu compare main/ branch/ --fail-over 5%", "a gate for a pipeline"}}};
  auto add = [options](CLI::App& app) {
    app.add_option("before", options->before,
                   "Trace, folder of traces or run directory, to compare with")
        ->type_name("BEFORE");
    app.add_option("after", options->after, "Trace, folder of traces or run directory")
        ->type_name("AFTER");
    options->explain.add_to(app);
    app.add_option("--fail-over", options->fail_over,
                   "Exit status 1 where a step takes longer by more than this")
        ->type_name("SHARE");
  };
  return {std::move(text), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
