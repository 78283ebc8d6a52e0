#include <fmt/format.h>

#include "commands.h"
#include "model_options.h"

namespace mfu::app {

namespace {

struct PlanOptions {
  ModelOptions model;
  StepOptions step;
  DeviceOptions device;
  std::string tokens;
  std::string flop;
  std::string mfu;
  std::string known_rate;
  std::vector<std::uint64_t> devices = {1};
  std::optional<double> price;
  std::optional<double> watts;
  double bytes_per_parameter = 16;
};

// The MFU to plan with: worked out from --known-rate, else the one given, else 40%.
Result<Fraction> expected_mfu(const PlanOptions& options, FlopRate peak,
                              std::vector<std::string>& assumptions) {
  if (options.known_rate.empty())
    return parse_share(options.mfu.empty() ? "40%" : options.mfu, "--mfu");
  if (!options.mfu.empty()) {
    return fail(ErrorCode::invalid_argument,
                "--mfu and --known-rate say the same thing. Give only one");
  }
  if (options.model.paths.empty() && !options.model.by_shape()) {
    return fail(
        ErrorCode::invalid_argument,
        "--known-rate needs the model that it was measured on. Name a config.json or give a shape");
  }
  double rate = MFU_TRY(parse_amount(options.known_rate, "--known-rate"));
  ModelSpec model =
      MFU_TRY(options.model.load(options.model.paths.empty() ? "" : options.model.paths[0]));
  Workload work = MFU_TRY(options.step.workload());
  FlopNeed need = MFU_TRY(flop_per_step(model, work));
  double flop_per_token = need.model_flop.to_double() / static_cast<double>(need.tokens);
  assumptions.push_back(
      fmt::format("a run reached {} tokens per second and device", options.known_rate));
  Fraction mfu = of_peak({rate * flop_per_token}, peak);
  if (mfu.value > 1) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format(
            "--known-rate {} is {:.0f}% of the peak, which is impossible. Perhaps the rate is that "
            "of several devices, or the peak belongs to another data type or variant",
            options.known_rate, mfu.value * 100));
  }
  return mfu;
}

// FLOPs of one token of the step × tokens. A last step that is not full counts in proportion.
Result<FlopCount> total_of(const PlanOptions& options, PlanInput& input,
                           std::vector<std::string>& assumptions) {
  bool named = !options.model.paths.empty() || options.model.by_shape();
  if (!options.flop.empty() && (!options.tokens.empty() || (named && options.known_rate.empty()))) {
    return fail(ErrorCode::invalid_argument,
                "--flop already is the whole work. Leave the model and --tokens out");
  }
  if (!options.flop.empty()) {
    double amount = MFU_TRY(parse_amount(options.flop, "--flop"));
    if (amount > 1e37) return fail(ErrorCode::invalid_argument, "--flop must be at most 1e37");
    return FlopCount::from_wide(static_cast<Uint128>(amount));
  }
  if (options.tokens.empty() || (options.model.paths.empty() && !options.model.by_shape())) {
    return fail(
        ErrorCode::invalid_argument,
        "say what to train: a config.json or a shape with --tokens, or the FLOPs with --flop");
  }
  ModelSpec model =
      MFU_TRY(options.model.load(options.model.paths.empty() ? "" : options.model.paths[0]));
  Workload work = MFU_TRY(options.step.workload());
  FlopNeed need = MFU_TRY(flop_per_step(model, work));
  std::uint64_t tokens = MFU_TRY(parse_whole_amount(options.tokens, "--tokens", 1e18));
  input.parameters = count_parameters(model).total;
  assumptions.push_back(fmt::format("{} of {} tokens in sequences of {}, counted by exact",
                                    name_of(work.phase), options.tokens, work.sequence));
  FlopCount whole = need.model_flop * FlopCount(tokens);
  return FlopCount::from_wide(whole.wide() / need.tokens);
}

Result<int> run(Context& context, const PlanOptions& options) {
  PlanReport report;
  PlanInput input;
  report.total_flop = MFU_TRY(total_of(options, input, report.assumptions));
  DeviceOptions::Against against = MFU_TRY(options.device.against(context.catalog()));
  report.mfu = MFU_TRY(expected_mfu(options, *against.peak.rate, report.assumptions));
  report.device = against.device.name;
  report.peak = against.peak;
  input.total_flop = report.total_flop;
  input.peak = *against.peak.rate;
  input.mfu = report.mfu;
  input.price_per_device_hour = options.price;
  input.watts_per_device = options.watts;
  input.bytes_per_parameter = options.bytes_per_parameter;
  input.memory_per_device = against.device.memory;
  for (std::uint64_t devices : options.devices) {
    input.devices = devices;
    report.plans.push_back(MFU_TRY(plan_run(input)));
  }
  report.assumptions.push_back(fmt::format(
      "the MFU is the same at every number of devices; training state is {:g} bytes per parameter "
      "(weights, gradients, optimizer), spread over all devices, without activations",
      options.bytes_per_parameter));
  if (options.watts)
    report.assumptions.push_back(
        fmt::format("{:g} W per device, without hosts, network and cooling", *options.watts));
  context.print(context.json() ? to_json(report) : to_text(report, context.style()));
  return kGood;
}

}  // namespace

Command plan_command() {
  auto options = std::make_shared<PlanOptions>();
  CommandText text{
      "plan",
      "How many devices, days and dollars?",
      "Turns FLOPs into device-hours, days, cost, energy and memory for the training state, at an "
      "MFU that you expect or know from a run.",
      {{"mfu plan llama-3.1-8b/ --seq 8192 --tokens 15e12 --device \"NVIDIA H100 80GB HBM3\" "
        "--devices 512,1024,2048 --price 2.5",
        "a table for three sizes of the job"},
       {"mfu plan --flop 3.8e25 --mfu 41% --device \"NVIDIA H100 80GB HBM3\" --devices 16384",
        "a job whose total FLOPs are known"}}};
  auto add = [options](CLI::App& app) {
    options->model.add_to(app, false);
    options->step.add_to(app);
    app.add_flag("--mtp", options->step.work.mtp, "Count the multi-token-prediction layers too");
    options->device.add_to(app);
    add_value(app, "--tokens", "N", options->tokens, "Tokens to train on, in total (15e12, 15T)");
    add_value(app, "--flop", "N", options->flop, "FLOPs in total, instead of a model and --tokens");
    add_value(app, "--mfu", "SHARE", options->mfu, "MFU to expect (default 40%)");
    add_value(app, "--known-rate", "N", options->known_rate,
              "Tokens per second and device of a known run of this model, instead of --mfu");
    add_value(app, "--devices", "N,N", options->devices,
              "Number of devices; several numbers with commas")
        ->delimiter(',')
        ->check(whole_number());
    add_value(app, "--price", "X", options->price, "Price of one device-hour")
        ->check(CLI::PositiveNumber);
    add_value(app, "--watts", "W", options->watts, "Power of one device, in watts")
        ->check(CLI::PositiveNumber);
    add_value(app, "--bytes-per-parameter", "X", options->bytes_per_parameter,
              "Bytes of training state per parameter (default 16: bf16 with Adam in fp32)");
  };
  return {std::move(text), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
