#include <fmt/format.h>

#include "commands.h"
#include "model_options.h"

namespace mfu::app {

namespace {

struct ConvertOptions {
  std::string share;
  std::string from = "palm";
  std::string to = "exact";
  ModelOptions model;
  StepOptions step;
};

Result<int> run(Context& context, const ConvertOptions& options) {
  Fraction mfu = MFU_TRY(parse_share(options.share, "MFU"));
  if (mfu.value > 1) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("an MFU of {:.0f}% is impossible. Write it as 45.2% or as 0.452",
                            mfu.value * 100));
  }
  Convention from = MFU_TRY(parse_convention(options.from));
  Convention to = MFU_TRY(parse_convention(options.to));
  if (options.model.paths.empty() && !options.model.by_shape()) {
    return fail(
        ErrorCode::invalid_argument,
        "which model? Name a config.json, or give a shape: --layers 32 --hidden 4096 --heads 32 …");
  }
  ModelSpec model =
      MFU_TRY(options.model.load(options.model.paths.empty() ? "" : options.model.paths[0]));
  Workload work = MFU_TRY(options.step.workload());
  ConversionReport report = MFU_TRY(report_conversion(model, work, mfu, from, to));
  context.print(context.json() ? to_json(report) : to_text(report, context.style()));
  return kGood;
}

}  // namespace

Command convert_command() {
  auto options = std::make_shared<ConvertOptions>();
  CommandText text{"convert",
                   "What is a published MFU in another convention?",
                   "Converts an MFU from one counting convention to another, for one model and "
                   "step. Time and peak stay the same, so only the FLOPs change.",
                   {{"mfu convert 45.2% --from palm --to megatron config.json --seq 8192",
                     "a published MFU, as Megatron would have counted it"}}};
  auto add = [options](CLI::App& app) {
    add_value(app, "MFU", "MFU", options->share, "The published MFU: 45.2% or 0.452")->required();
    add_value(app, "--from", "NAME", options->from,
              "Convention that it was counted by (default palm)");
    add_value(app, "--to", "NAME", options->to, "Convention to convert it to (default exact)");
    options->model.add_to(app, false);
    options->step.add_to(app);
    app.add_flag("--mtp", options->step.work.mtp, "Count the multi-token-prediction layers too");
  };
  return {std::move(text), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
