#include "explain_options.h"

#include <fmt/format.h>

#include <CLI/Validators.hpp>
#include <algorithm>
#include <cmath>
#include <mutex>

#include "model_options.h"
#include "progress.h"

namespace mfu::app {

namespace {

// The bar appears once reading has taken a second.
class ReadingBar {
 public:
  void show(const ReadProgress& progress) {
    std::lock_guard lock(mutex_);
    auto passed = std::chrono::steady_clock::now() - begun_;
    if (passed < std::chrono::seconds(1) || !progress.bytes_whole || *progress.bytes_whole == 0) {
      return;
    }
    if (!bar_) bar_ = std::make_unique<ProgressBar>("reading");
    double done =
        static_cast<double>(progress.bytes_done) / static_cast<double>(*progress.bytes_whole);
    bar_->show({done}, fmt::format("{} of {}", bytes_text({progress.bytes_done}),
                                   bytes_text({*progress.bytes_whole})));
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<ProgressBar> bar_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

Result<Device> device_named(Context& context, const std::string& name) {
  if (name != "this") return find_device(context.catalog(), name);
  Diagnostics diagnostics;
  Machine machine = detect_machine(context.catalog(), diagnostics);
  context.warn(diagnostics);
  if (machine.devices.empty() || !machine.devices.back().device) {
    return fail(ErrorCode::not_found,
                "--device this: this machine's processor has no known peak; give --peak");
  }
  return *machine.devices.back().device;
}

}  // namespace

void ExplainOptions::add_to(CLI::App& app) {
  add_value(
      app, "--window", "WINDOW", window,
      "The time to explain: all, steps (default if they are marked) or FROM:TO (2ms:10ms counts "
      "from the first device event; bare numbers are ns on the trace's clock)");
  add_value(app, "--device", "NAME", device,
            "Compare with the peak of this device, if the trace does not name it; `this` is "
            "the processor of this machine");
  add_value(app, "--dtype", "TYPE", type,
            "Data type of the matmuls, if the trace does not show it");
  add_value(app, "--peak", "N", peak, "Peak of one device in FLOP/s; wins over --device");
  add_value(app, "--model", "CONFIG", model,
            "config.json of the model: compute MFU from what it needs");
  add_value(app, "--tokens", "N", tokens,
            "With --model: tokens that each device processed in the window");
  add_count(app, "--seq", sequence, "With --model: length of a sequence (default 2048)");
  add_value(app, "--phase", "PHASE", phase, "With --model: kind of step")
      ->check(CLI::IsMember({"train", "forward", "prefill", "decode"}));
}

Result<AttributionOptions> ExplainOptions::attribution(Context& context) const {
  AttributionOptions options;
  options.catalog = &context.catalog();
  options.timeline = timeline;
  if (!window.empty()) options.window = MFU_TRY(parse_window(window));
  if (!device.empty()) options.device = MFU_TRY(device_named(context, device));
  if (!peak.empty()) options.peak = MFU_TRY(parse_peak(peak));
  if (!type.empty()) options.precision = MFU_TRY(parse_type(type));
  if (model.empty() != tokens.empty()) {
    return fail(ErrorCode::invalid_argument, "--model and --tokens go together");
  }
  if (!model.empty()) {
    double count = static_cast<double>(MFU_TRY(parse_whole_amount(tokens, "--tokens", 1e15)));
    ModelSpec spec = MFU_TRY(ModelOptions{}.load(model));
    NeedQuestion question;
    question.work.phase = MFU_TRY(parse_phase(phase));
    question.work.sequence = sequence;
    NeedReport need = MFU_TRY(report_need(spec, question));
    if (!need.flop_per_token) {
      return fail(ErrorCode::unsupported,
                  fmt::format("{}: its FLOPs per token are not defined. Leave --model out", model));
    }
    options.model_flop_per_rank =
        FlopCount::from_wide(static_cast<Uint128>(std::round(*need.flop_per_token * count)));
  }
  return options;
}

Result<Gathered> ExplainOptions::gather(Context& context, const std::vector<std::string>& paths,
                                        const AttributionOptions& options) const {
  std::optional<Parts> parts;
  std::optional<PassingFolder> folder;
  std::vector<std::string> here = paths;
  if (!engine.empty() || std::any_of(paths.begin(), paths.end(), is_remote)) {
    folder.emplace(MFU_TRY(PassingFolder::make()));
    here = MFU_TRY(gather_elsewhere(context, {engine, window, paths}, *folder));
  }
  {
    ReadingBar bar;
    ReadOptions reading;
    reading.name = name;
    reading.progress = [&bar](const ReadProgress& progress) { bar.show(progress); };
    parts = MFU_TRY(mfu::gather(here, options, reading));
  }
  for (const auto& [path, found] : parts->secrets()) {
    context.warn(
        fmt::format("{} carries what looks like {}. It is not repeated here; take it out before "
                    "you share the file.",
                    path, found));
  }
  for (const std::string& refused : parts->refused()) context.warn(refused);
  return Gathered{std::move(folder), std::move(*parts)};
}

Result<ExplainReport> ExplainOptions::explain(Context& context,
                                              const std::vector<std::string>& paths) const {
  AttributionOptions options = MFU_TRY(attribution(context));
  Gathered gathered = MFU_TRY(gather(context, paths, options));
  return report_explanation(MFU_TRY(attribute(gathered.parts, options)));
}

}  // namespace mfu::app
