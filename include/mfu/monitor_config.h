// The documented YAML of the monitor: every key in each of its spellings, what it means now, and
// what is wrong with a file, by line and column.
//
//   auto config = mfu::parse_monitor_config("monitoring: {flops_profile_freq: 500}", "train.yaml");
//   config->schedule.fixed;  // 500
//
// Everything may stand under `monitoring:` or `monitor:`; other sections of the file are somebody
// else's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/hardware.h"
#include "mfu/measure.h"

namespace mfu {

struct MonitorConfig {
  bool enabled = true;                   // enable_mfu_tracking
  Mode mode = SmartMode{};               // mfu_calculation_mode and its settings
  Schedule schedule{};                   // flops_profile_freq, measure_flops_frequency, by phase
  std::uint64_t generation_every = 10;   // mfu_calculation_freq, steps
  std::uint64_t training_log_every = 1;  // freq.training_log_freq, steps; 0: never
  std::uint64_t perf_log_every = 1;      // freq.perf_log_freq
  std::uint64_t device_log_every = 1;    // freq.gpu_log_freq
  std::uint64_t local_save_every = 1;    // freq.local_save_freq
  bool zero_where_unmeasured = false;    // unmeasured: zero
  bool skip_wandb = false;
  std::string output_dir{};                    // empty: no files but those named below
  std::string log_file = "training_log.json";  // in output_dir
  // Where steps survive a kill -9; empty: mfu-run in output_dir.
  std::string run_dir{};
  bool keep_run = true;                  // run_dir: none. False: without a run directory
  std::string model{};                   // config.json, a folder that holds one, …
  std::string device{};                  // a name of the catalogue, or "auto"
  std::optional<Precision> precision{};  // dtype
  std::optional<FlopRate> peak{};        // of one device, wins over `device`
  std::uint64_t devices = 1;
  bool console = false;
  std::string csv{}, jsonl{}, tensorboard{}, prometheus{};  // paths
  std::string otlp{}, mlflow{}, mlflow_run{};               // addresses, and MLflow's run id
};

// One setting of a file, as it was understood.
struct ConfigSetting {
  std::string key;      // as written: "monitor.freq.flops_profile_freq"
  std::string value;    // as written
  std::string meaning;  // what it means now
  std::size_t line = 0;
};

struct ConfigReading {
  MonitorConfig config;                 // what is wrong is left at its default
  std::vector<ConfigSetting> settings;  // in the order of the file
  std::vector<std::string> problems;    // with file, line and column, and what was perhaps meant
};

// Fails only where the text is not YAML. A training loop uses what can be read and warns of the
// rest.
Result<ConfigReading> read_monitor_config(std::string_view text, std::string_view name);

// The same, failed by any problem.
Result<MonitorConfig> parse_monitor_config(std::string_view text, std::string_view name);

// mfu.config_check/1
std::string to_json(const ConfigReading& reading);

// Whether the file has settings of the monitor at all.
bool has_monitor_settings(std::string_view text);

}  // namespace mfu
