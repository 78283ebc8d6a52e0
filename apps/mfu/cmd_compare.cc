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

// What the path of one side of a comparison holds.
enum class Side { traces, run, monitor };

bool holds(const std::string& path, std::string_view start, std::string_view end) {
  std::error_code error;
  for (std::filesystem::directory_iterator each(path, error), last; !error && each != last;
       each.increment(error)) {
    std::string name = each->path().filename().string();
    if (name.starts_with(start) && name.ends_with(end)) return true;
  }
  return false;
}

Side side_of(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path + "/run.json", error) || holds(path, "", ".steps")) {
    return Side::run;
  }
  return holds(path, "steps-", ".json") ? Side::monitor : Side::traces;
}

// A monitor keeps its run directory inside its output folder.
std::string inner_run(const std::string& path) {
  std::error_code error;
  bool inside =
      side_of(path) == Side::traces && std::filesystem::is_directory(path + "/mfu-run", error);
  return inside ? path + "/mfu-run" : path;
}

Result<ComparedSteps> steps_at(Context& context, const ExplainOptions& options,
                               const std::string& path) {
  if (side_of(path) == Side::monitor) {
    RecordedSteps recorded = MFU_TRY(read_recorded_steps(path));
    for (const std::string& note : recorded.notes) context.warn(note);
    return compared_steps(recorded.reports);
  }
  RunRecord record = MFU_TRY(read_run(path));
  for (const std::string& note : record.notes) context.warn(note);
  AttributionOptions chosen = MFU_TRY(options.attribution(context));
  RunQuestion question;
  question.device = MFU_TRY(device_of_run(record, context.catalog(), options.device));
  question.peak = chosen.peak;
  question.precision = chosen.precision;
  return compared_steps(record, question);
}

Result<ComparedSteps> named_steps(Context& context, const ExplainOptions& options,
                                  const std::string& path) {
  Result<ComparedSteps> steps = steps_at(context, options, path);
  if (steps.has_value() || steps.error().code != ErrorCode::unsupported) return steps;
  return fail(ErrorCode::unsupported, path + " " + steps.error().message);
}

Result<ComparisonReport> compared(Context& context, const CompareOptions& options,
                                  std::optional<double> fail_over) {
  std::string before = inner_run(options.before), after = inner_run(options.after);
  bool run_before = side_of(before) != Side::traces;
  if (run_before != (side_of(after) != Side::traces)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is a run directory of mfu run or of a monitor, but {} is not. "
                            "Compare two of the same kind",
                            run_before ? options.before : options.after,
                            run_before ? options.after : options.before));
  }
  if (run_before) {
    ComparedSteps first = MFU_TRY(named_steps(context, options.explain, before));
    ComparedSteps second = MFU_TRY(named_steps(context, options.explain, after));
    return report_comparison(first, second, fail_over);
  }
  ExplainReport first = MFU_TRY(options.explain.explain(context, {options.before}));
  ExplainReport second = MFU_TRY(options.explain.explain(context, {options.after}));
  return report_comparison(first, second, fail_over);
}

Result<int> run(Context& context, const CompareOptions& options) {
  if (options.before.empty() || options.after.empty()) {
    return fail(ErrorCode::invalid_argument,
                "name two traces or two run directories: first the old one, then the new one");
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
      "What got better or worse between two traces or runs?",
      "Says whether the second one is better, worse or the same, and where the time of a step "
      "went. Every line is a mean over the steps after warm-up, shown with its 95% range. There is "
      "a verdict only if the difference is larger than the noise and at least 1%. If both sides "
      "know their tokens, the time per token is compared.\n\n"
      "The exit status is 1 if the second one is worse; with --fail-over, only if it is slower by "
      "more than that. Traces are explained first and their ledgers shown side by side, per step "
      "if both mark their steps.",
      {{"mfu compare before.json.gz after.json.gz", "the ledgers of two traces, side by side"},
       {"mfu compare mfu-runs/main mfu-runs/branch", "two runs of mfu run"},
       {"mfu compare outputs/a outputs/b", "two output folders of a monitor"},
       {"mfu compare main/ branch/ --fail-over 5%",
        "fail a pipeline that got more than 5% slower"}}};
  auto add = [options](CLI::App& app) {
    add_value(app, "before", "BEFORE", options->before,
              "The old one: a trace, a folder of traces, a run directory or an output folder");
    add_value(app, "after", "AFTER", options->after, "The new one, of the same kind");
    options->explain.add_to(app);
    add_value(app, "--fail-over", "SHARE", options->fail_over,
              "Exit with status 1 only if the new one is slower by more than this (5%, 0.05)");
  };
  return {std::move(text), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
