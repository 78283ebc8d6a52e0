#include "monitor/config_keys.h"

#include <fmt/format.h>

#include "base/text.h"
#include "monitor/metrics_endpoint.h"

namespace mfu {

namespace {

using Set = std::function<Result<void>(ConfigDraft&, const YamlNode&)>;

Failure expected(const YamlNode& node, std::string_view what) {
  return fail(ErrorCode::malformed,
              fmt::format("'{}' where {} was expected", printable(node.text), what));
}

Result<std::uint64_t> count_of(const YamlNode& node) {
  std::optional<std::uint64_t> count = parse_count(node.text);
  if (!count || node.quoted) return expected(node, "a whole number of 0 or more");
  return *count;
}

Result<bool> flag_of(const YamlNode& node) {
  std::string word = to_lower(node.text);
  if (!node.quoted && (word == "true" || word == "yes" || word == "on")) return true;
  if (!node.quoted && (word == "false" || word == "no" || word == "off")) return false;
  return expected(node, "true or false");
}

// Setters for the three plain kinds of values. `Where` is the member to set.
template <typename Where>
Set count(Where where) {
  return [where](ConfigDraft& draft, const YamlNode& node) -> Result<void> {
    where(draft) = MFU_TRY(count_of(node));
    return {};
  };
}
template <typename Where>
Set flag(Where where) {
  return [where](ConfigDraft& draft, const YamlNode& node) -> Result<void> {
    where(draft) = MFU_TRY(flag_of(node));
    return {};
  };
}
Set text(std::string MonitorConfig::* where) {
  return [where](ConfigDraft& draft, const YamlNode& node) -> Result<void> {
    draft.config.*where = node.text;
    return {};
  };
}

std::string every(std::uint64_t steps) {
  if (steps == 0) return "never";
  return steps == 1 ? "every step" : fmt::format("every {} steps", steps);
}

Result<void> set_mode(ConfigDraft& draft, const YamlNode& node) {
  MFU_TRY(parse_mode(node.text));
  draft.mode = node.text;
  return {};
}

Result<void> set_unmeasured(ConfigDraft& draft, const YamlNode& node) {
  if (node.text != "zero" && node.text != "absent") return expected(node, "zero or absent");
  draft.config.zero_where_unmeasured = node.text == "zero";
  return {};
}

Result<void> set_precision(ConfigDraft& draft, const YamlNode& node) {
  draft.config.precision = parse_precision(node.text);
  if (!draft.config.precision)
    return expected(node, "a data type (bf16, fp16, fp32, tf32, fp8, …)");
  return {};
}

Result<void> set_peak(ConfigDraft& draft, const YamlNode& node) {
  std::optional<double> peak = parse_number(node.text);
  if (!peak || *peak <= 0 || node.quoted) {
    return expected(node, "a peak of one device in FLOP/s (312e12)");
  }
  draft.config.peak = FlopRate{*peak};
  return {};
}

Result<void> set_run_dir(ConfigDraft& draft, const YamlNode& node) {
  std::string word = to_lower(node.text);
  bool none = !node.quoted && (word == "none" || word == "false" || word == "no" || word == "off");
  draft.config.keep_run = !none;
  draft.config.run_dir = none ? "" : node.text;
  return {};
}

Result<void> set_prometheus(ConfigDraft& draft, const YamlNode& node) {
  if (is_wrong_metrics_address(node.text)) {
    return expected(node, "a port from 1 to 65535 (:9464), or the path of a file");
  }
  draft.config.prometheus = node.text;
  return {};
}

std::string mode_meaning(const MonitorConfig& config) {
  switch (config.mode.index()) {
    case 0:
      return "FLOPs by formula from the model and the lengths of each step";
    case 1:
      return "FLOPs from counted operators, on the steps that are measured";
    case 2:
      return "measured at first, then estimates calibrated by what was measured";
    default:
      return "FLOPs from hardware counters where the machine has them, else the fallback";
  }
}

std::string schedule_meaning(const MonitorConfig& config) {
  if (std::holds_alternative<EstimateMode>(config.mode)) return "nothing is measured in this mode";
  return fmt::format("FLOPs are measured {}", every(config.schedule.fixed.value_or(0)));
}

// Explains a setting of one mode. If another mode is chosen, it says that the setting is not used.
template <typename Chosen, typename Meaning>
std::function<std::string(const MonitorConfig&)> in_mode(std::string_view name, Meaning meaning) {
  return [name, meaning](const MonitorConfig& config) -> std::string {
    const auto* mode = std::get_if<Chosen>(&config.mode);
    if (mode == nullptr) return fmt::format("not used: mfu_calculation_mode is not {}", name);
    return meaning(*mode);
  };
}

std::string phase_meaning(const MonitorConfig& config, TrainingPhase phase) {
  if (config.schedule.fixed) return "not used: one frequency is set for all phases";
  return fmt::format("in {} FLOPs are measured {}", name_of(phase),
                     every(config.schedule.period(phase)));
}

std::vector<ConfigKey> measurement_keys() {
  return {
      {{"enable_mfu_tracking"},
       flag([](ConfigDraft& d) -> bool& { return d.config.enabled; }),
       [](const MonitorConfig& c) -> std::string { return c.enabled ? "MFU is tracked" : "off"; }},
      {{"mfu_calculation_freq"},
       count([](ConfigDraft& d) -> std::uint64_t& { return d.config.generation_every; }),
       [](const MonitorConfig& c) {
         return "MFU of generation is computed " + every(c.generation_every);
       }},
      {{"mfu_calculation_mode"}, set_mode, mode_meaning},
      {{"flops_profile_freq", "freq.flops_profile_freq"},
       count([](ConfigDraft& d) -> std::optional<std::uint64_t>& { return d.profile_every; }),
       schedule_meaning},
      {{"performance_monitoring.measure_flops_frequency", "measure_flops_frequency"},
       count([](ConfigDraft& d) -> std::optional<std::uint64_t>& { return d.measure_every; }),
       schedule_meaning},
      {{"performance_monitoring.phase_frequency.warmup", "phase_frequency.warmup"},
       count([](ConfigDraft& d) -> std::uint64_t& { return d.config.schedule.warmup; }),
       [](const MonitorConfig& c) { return phase_meaning(c, TrainingPhase::warmup); }},
      {{"performance_monitoring.phase_frequency.main", "phase_frequency.main"},
       count([](ConfigDraft& d) -> std::uint64_t& { return d.config.schedule.main; }),
       [](const MonitorConfig& c) { return phase_meaning(c, TrainingPhase::main); }},
      {{"performance_monitoring.phase_frequency.finetune", "phase_frequency.finetune"},
       count([](ConfigDraft& d) -> std::uint64_t& { return d.config.schedule.finetune; }),
       [](const MonitorConfig& c) { return phase_meaning(c, TrainingPhase::finetune); }},
      {{"unmeasured"},
       set_unmeasured,
       [](const MonitorConfig& c) -> std::string {
         return c.zero_where_unmeasured ? "perf/mfu is 0 on steps without FLOPs"
                                        : "perf/mfu is left out on steps without FLOPs";
       }},
  };
}

std::vector<ConfigKey> mode_keys() {
  return {
      {{"performance_monitoring.smart_mode.initial_profiling", "smart_mode.initial_profiling"},
       flag([](ConfigDraft& d) -> bool& { return d.smart.initial_profiling; }),
       in_mode<SmartMode>("smart",
                          [](const SmartMode& mode) {
                            return mode.initial_profiling ? "the first step is measured"
                                                          : "the first step is not measured";
                          })},
      {{"performance_monitoring.smart_mode.calibration_enabled", "smart_mode.calibration_enabled"},
       flag([](ConfigDraft& d) -> bool& { return d.smart.calibration_enabled; }),
       in_mode<SmartMode>("smart",
                          [](const SmartMode& mode) {
                            return mode.calibration_enabled
                                       ? "estimates are calibrated by what was measured"
                                       : "estimates are left as they are";
                          })},
      {{"performance_monitoring.smart_mode.recalibration_frequency",
        "smart_mode.recalibration_frequency"},
       count([](ConfigDraft& d) -> std::uint64_t& { return d.smart.recalibration_frequency; }),
       in_mode<SmartMode>("smart",
                          [](const SmartMode& mode) {
                            return "calibrated again " + every(mode.recalibration_frequency) +
                                   ", and when shapes leave what was calibrated";
                          })},
      {{"performance_monitoring.hybrid_mode.hardware_counters_enabled",
        "hybrid_mode.hardware_counters_enabled"},
       flag([](ConfigDraft& d) -> bool& { return d.hybrid.hardware_counters_enabled; }),
       in_mode<HybridMode>("hybrid",
                           [](const HybridMode& mode) {
                             return mode.hardware_counters_enabled
                                        ? "hardware counters are asked first"
                                        : "hardware counters are left alone";
                           })},
      {{"performance_monitoring.hybrid_mode.fallback_to_profiler",
        "hybrid_mode.fallback_to_profiler"},
       flag([](ConfigDraft& d) -> bool& { return d.hybrid.fallback_to_profiler; }),
       in_mode<HybridMode>("hybrid",
                           [](const HybridMode& mode) {
                             return mode.fallback_to_profiler
                                        ? "without counters: counted operators, then the estimate"
                                        : "without counters: the estimate";
                           })},
  };
}

std::vector<ConfigKey> log_keys() {
  return {
      {{"freq.training_log_freq", "training_log_freq"},
       count([](ConfigDraft& d) -> std::uint64_t& { return d.config.training_log_every; }),
       [](const MonitorConfig& c) {
         return "loss and similar metrics go to dashboards " + every(c.training_log_every);
       }},
      {{"freq.perf_log_freq", "perf_log_freq"},
       count([](ConfigDraft& d) -> std::uint64_t& { return d.config.perf_log_every; }),
       [](const MonitorConfig& c) {
         return "perf/… goes to dashboards " + every(c.perf_log_every);
       }},
      {{"freq.gpu_log_freq", "gpu_log_freq"},
       count([](ConfigDraft& d) -> std::uint64_t& { return d.config.device_log_every; }),
       [](const MonitorConfig& c) {
         return "metrics of the device are read " + every(c.device_log_every) +
                " by who provides them (the core reads none)";
       }},
      {{"freq.local_save_freq", "local_save_freq"},
       count([](ConfigDraft& d) -> std::uint64_t& { return d.config.local_save_every; }),
       [](const MonitorConfig& c) {
         return c.local_save_every == 0
                    ? std::string("local logs are written when the run ends")
                    : "local logs are written " + every(c.local_save_every) + ", no step left out";
       }},
      {{"skip_wandb"},
       flag([](ConfigDraft& d) -> bool& { return d.config.skip_wandb; }),
       [](const MonitorConfig& c) -> std::string {
         return c.skip_wandb ? "nothing goes to Weights & Biases"
                             : "Weights & Biases is used where it is there";
       }},
  };
}

std::vector<ConfigKey> place_keys() {
  auto named = [](std::string_view what, std::string MonitorConfig::* where) {
    return [what, where](const MonitorConfig& c) { return fmt::format("{}: {}", what, c.*where); };
  };
  return {
      {{"output_dir"},
       text(&MonitorConfig::output_dir),
       named("logs go to", &MonitorConfig::output_dir)},
      {{"log_file"},
       text(&MonitorConfig::log_file),
       named("the log in output_dir, JSON Lines", &MonitorConfig::log_file)},
      {{"run_dir"},
       set_run_dir,
       [](const MonitorConfig& c) -> std::string {
         return c.keep_run ? "every step is kept, also through kill -9, in: " + c.run_dir
                           : "no run directory: a kill -9 loses what no sink has yet";
       }},
      {{"model"}, text(&MonitorConfig::model), named("estimates are of", &MonitorConfig::model)},
      {{"device"},
       text(&MonitorConfig::device),
       named("the peak is that of", &MonitorConfig::device)},
      {{"dtype"},
       set_precision,
       [](const MonitorConfig& c) {
         return fmt::format("the peak is for {}", c.precision ? name_of(*c.precision) : "");
       }},
      {{"peak"},
       set_peak,
       [](const MonitorConfig& c) {
         return fmt::format("MFU is of {} FLOP/s a device", c.peak ? c.peak->per_s : 0);
       }},
      {{"devices"},
       count([](ConfigDraft& d) -> std::uint64_t& { return d.config.devices; }),
       [](const MonitorConfig& c) {
         return fmt::format("a step's tokens are of {} device{}", c.devices,
                            c.devices == 1 ? "" : "s");
       }},
      {{"sinks.console", "console"},
       flag([](ConfigDraft& d) -> bool& { return d.config.console; }),
       [](const MonitorConfig& c) -> std::string {
         return c.console ? "a line a step on standard error" : "no lines on the console";
       }},
      {{"sinks.jsonl", "jsonl"},
       text(&MonitorConfig::jsonl),
       named("JSON Lines", &MonitorConfig::jsonl)},
      {{"sinks.csv", "csv"}, text(&MonitorConfig::csv), named("CSV", &MonitorConfig::csv)},
      {{"sinks.tensorboard", "tensorboard"},
       text(&MonitorConfig::tensorboard),
       named("TensorBoard events in", &MonitorConfig::tensorboard)},
      {{"sinks.prometheus", "prometheus"},
       set_prometheus,
       [](const MonitorConfig& c) {
         std::optional<MetricsAddress> at = parse_metrics_address(c.prometheus);
         return at ? fmt::format(
                         "Prometheus gets the newest step at http://{}:{}/metrics (ranks of "
                         "a machine: one port each, from here on)",
                         at->address, at->port)
                   : fmt::format("the newest step for Prometheus: {}", c.prometheus);
       }},
      {{"sinks.otlp", "otlp"},
       text(&MonitorConfig::otlp),
       named("OpenTelemetry at", &MonitorConfig::otlp)},
      {{"sinks.mlflow", "mlflow"},
       text(&MonitorConfig::mlflow),
       named("MLflow at", &MonitorConfig::mlflow)},
      {{"sinks.mlflow_run", "mlflow_run"},
       text(&MonitorConfig::mlflow_run),
       named("MLflow's run", &MonitorConfig::mlflow_run)},
  };
}

std::vector<ConfigKey> all_keys() {
  std::vector<ConfigKey> keys = measurement_keys();
  for (const auto& more : {mode_keys(), log_keys(), place_keys()}) {
    keys.insert(keys.end(), more.begin(), more.end());
  }
  return keys;
}

}  // namespace

MonitorConfig ConfigDraft::finished() const {
  MonitorConfig done = config;
  done.mode = *parse_mode(mode);
  if (std::holds_alternative<SmartMode>(done.mode)) done.mode = smart;
  if (std::holds_alternative<HybridMode>(done.mode)) done.mode = hybrid;
  done.schedule.fixed = measure_every ? measure_every : profile_every;
  return done;
}

std::span<const ConfigKey> config_keys() {
  static const std::vector<ConfigKey> kKeys = all_keys();
  return kKeys;
}

}  // namespace mfu
