#include "mfu/c.h"

#include <cmath>
#include <limits>

#include "mfu/monitor.h"

struct mfu_monitor {  // NOLINT(readability-identifier-naming): C's name
  std::unique_ptr<mfu::Monitor> monitor;
};

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The texts whose pointers this thread's calls return.
thread_local std::string t_error;  // NOLINT(readability-identifier-naming)
thread_local std::string t_text;   // NOLINT(readability-identifier-naming)

std::optional<double> known(double value) {
  return std::isnan(value) ? std::nullopt : std::optional<double>(value);
}

mfu_monitor* opened(mfu::Result<std::unique_ptr<mfu::Monitor>> monitor) {
  if (!monitor.has_value()) {
    t_error = monitor.error().message;
    return nullptr;
  }
  t_error.clear();
  return new mfu_monitor{std::move(monitor).value()};
}

mfu::Result<std::unique_ptr<mfu::Monitor>> open_with(const mfu_options& given,
                                                     std::string_view yaml, std::string_view name) {
  mfu::MonitorOptions options;
  if (!yaml.empty()) options.config = MFU_TRY(mfu::parse_monitor_config(yaml, name));
  if (given.model != nullptr) options.config.model = given.model;
  if (given.output_dir != nullptr) options.config.output_dir = given.output_dir;
  if (given.run_dir != nullptr) {
    options.config.run_dir = given.run_dir;
    options.config.keep_run = *given.run_dir != '\0';
  }
  if (!std::isnan(given.peak_flop_per_s)) options.peak = mfu::FlopRate{given.peak_flop_per_s};
  if (given.devices != 0) options.config.devices = given.devices;
  return mfu::Monitor::open(std::move(options));
}

}  // namespace

extern "C" {

const char* mfu_version(void) {
  return MFU_VERSION;
}

const char* mfu_error(void) {
  return t_error.c_str();
}

mfu_options mfu_options_unknown(void) {
  mfu_options options = {};
  options.peak_flop_per_s = kUnknown;
  return options;
}

mfu_monitor* mfu_monitor_open(const mfu_options* options) {
  mfu_options given = options == nullptr ? mfu_options_unknown() : *options;
  return opened(open_with(given, given.yaml == nullptr ? "" : given.yaml, "yaml"));
}

mfu_monitor* mfu_monitor_open_yaml(const char* path) {
  if (path == nullptr) {
    t_error = "no file was named";
    return nullptr;
  }
  mfu::Result<mfu::ConfigSource> file = mfu::open_monitor_config(path);
  if (!file.has_value()) {
    t_error = file.error().message;
    return nullptr;
  }
  return opened(open_with(mfu_options_unknown(), file->text, path));
}

void mfu_monitor_close(mfu_monitor* monitor) {
  delete monitor;
}

mfu_step mfu_step_unknown(void) {
  mfu_step step = {};
  step.epoch = step.loss = step.grad_norm = step.learning_rate = step.duration_s = kUnknown;
  return step;
}

void mfu_monitor_log_step(mfu_monitor* monitor, const mfu_step* step) {
  if (monitor == nullptr || step == nullptr) return;
  mfu::StepInfo info{.step = step->step,
                     .epoch = known(step->epoch),
                     .loss = known(step->loss),
                     .grad_norm = known(step->grad_norm),
                     .learning_rate = known(step->learning_rate),
                     .duration_s = known(step->duration_s),
                     .shape = {.sequences = step->sequences,
                               .tokens = step->tokens,
                               .squares = step->squares,
                               .padded_length = step->padded_length},
                     .samples = step->samples};
  if (step->counted_flop_low != 0 || step->counted_flop_high != 0) {
    info.counted_flop =
        mfu::FlopCount::from_halves(step->counted_flop_high, step->counted_flop_low);
  }
  monitor->monitor->log_step(info);
}

void mfu_monitor_count_tokens(mfu_monitor* monitor, uint64_t tokens) {
  if (monitor != nullptr) monitor->monitor->count_tokens(tokens);
}

void mfu_monitor_count_prefill(mfu_monitor* monitor, uint64_t prompts, uint64_t tokens,
                               uint64_t squares) {
  if (monitor == nullptr) return;
  monitor->monitor->tokens().add_prefill(
      {.sequences = prompts, .tokens = tokens, .squares = squares});
}

void mfu_monitor_count_decode(mfu_monitor* monitor, uint64_t sequences, uint64_t context) {
  if (monitor != nullptr) monitor->monitor->tokens().add_decode(sequences, context);
}

int mfu_monitor_set_phase(mfu_monitor* monitor, const char* phase) {
  if (monitor == nullptr || phase == nullptr) return 0;
  mfu::Result<mfu::TrainingPhase> found = mfu::parse_training_phase(phase);
  if (!found.has_value()) {
    t_error = found.error().message;
    return 0;
  }
  monitor->monitor->set_phase(*found);
  return 1;
}

int mfu_monitor_measurement_due(mfu_monitor* monitor, uint64_t step) {
  return monitor != nullptr && monitor->monitor->measurement_due(step) ? 1 : 0;
}

int mfu_monitor_flush(mfu_monitor* monitor, double patience_s) {
  if (monitor == nullptr || !(patience_s > 0)) return 0;
  auto patience = std::chrono::milliseconds(std::llround(std::fmin(patience_s, 1e6) * 1000));
  return monitor->monitor->flush(patience) ? 1 : 0;
}

int mfu_monitor_last_report(mfu_monitor* monitor, mfu_report* report) {
  if (monitor == nullptr || report == nullptr) return 0;
  std::optional<mfu::StepReport> last = monitor->monitor->last_report();
  if (!last) return 0;
  auto value = [&](std::string_view name) { return last->value(name).value_or(kUnknown); };
  *report = {.step = last->step,
             .mfu = value("perf/mfu"),
             .step_time_s = value("perf/step_time"),
             .tokens_per_s = value("perf/tokens_per_second"),
             .samples_per_s = value("perf/samples_per_second"),
             .generation_tokens_per_s = value("mfu/tokens_per_second"),
             .generation_mfu = value("mfu/mfu_percentage") / 100,
             .source = last->source ? mfu::name_of(*last->source).data() : ""};
  return 1;
}

const char* mfu_monitor_last_json(mfu_monitor* monitor) {
  if (monitor == nullptr) return nullptr;
  std::optional<mfu::StepReport> last = monitor->monitor->last_report();
  if (!last) return nullptr;
  t_text = mfu::to_json(*last);
  return t_text.c_str();
}

mfu_status mfu_monitor_status(mfu_monitor* monitor) {
  if (monitor == nullptr) return {};
  mfu::MonitorStatus status = monitor->monitor->status();
  return {.logged = status.logged,
          .dropped = status.dropped,
          .reported = status.reported,
          .unsent = status.unsent};
}

const char* mfu_monitor_warning(mfu_monitor* monitor, size_t number) {
  if (monitor == nullptr) return nullptr;
  std::vector<std::string> warnings = monitor->monitor->warnings();
  if (number >= warnings.size()) return nullptr;
  t_text = warnings[number];
  return t_text.c_str();
}

}  // extern "C"
