#include <CLI/Option.hpp>

#include "commands.h"
#include "explain_options.h"
#include "model_options.h"

namespace mfu::app {

namespace {

struct Options {
  ExplainOptions explain;
  std::string before, after, fail_over;
};

Result<int> run(Context& context, const Options& options) {
  if (options.before.empty() || options.after.empty()) {
    return fail(ErrorCode::invalid_argument, "name two traces: the one before, the one after");
  }
  std::optional<double> fail_over;
  if (!options.fail_over.empty()) {
    fail_over = MFU_TRY(parse_share(options.fail_over, "--fail-over")).value;
  }
  ExplainReport before = MFU_TRY(options.explain.explain(context, {options.before}));
  ExplainReport after = MFU_TRY(options.explain.explain(context, {options.after}));
  ComparisonReport report = report_comparison(before, after, fail_over);
  report.before = options.before;
  report.after = options.after;
  context.print(context.json() ? to_json(report) : to_text(report, context.style()));
  return report.failed ? kThreshold : kGood;
}

}  // namespace

Command compare_command() {
  auto options = std::make_shared<Options>();
  CommandText text{
      "compare",
      "What got better or worse between two traces",
      "Explains both and sets their ledgers side by side, by step where both mark steps. With "
      "--fail-over, exit status 1 where the second is slower by more than that.",
      {{"mfu compare before.json.gz after.json.gz", "ledgers side by side"},
       {"mfu compare main/ branch/ --fail-over 5%", "a gate for a pipeline"}}};
  auto add = [options](CLI::App& app) {
    app.add_option("before", options->before, "Trace, or folder of traces, to compare with")
        ->type_name("BEFORE");
    app.add_option("after", options->after, "Trace, or folder of traces")->type_name("AFTER");
    options->explain.add_to(app);
    app.add_option("--fail-over", options->fail_over,
                   "Exit status 1 where a step takes longer by more than this")
        ->type_name("SHARE");
  };
  return {std::move(text), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
