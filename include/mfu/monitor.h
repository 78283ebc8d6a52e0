// The monitor that a training loop calls. Logging a step takes about as long as reading the clock.
// A background thread computes MFU and feeds the sinks. docs/monitor.md has the YAML settings.
//
//   auto config = mfu::parse_monitor_config("monitor: {flops_profile_freq: 500}", "train.yaml");
//   auto monitor = MFU_TRY(mfu::Monitor::open({.config = *config, .peak = {{989.4e12}}}));
//   for (std::uint64_t step = 0; step < 1000; ++step) {
//     // … train …
//     monitor->log_step({.step = step, .loss = 2.3, .shape = mfu::StepShape::of(8, 4096)});
//   }
//
// No call throws, blocks or stops the loop. A wrong number is left out and named once in
// warnings(). Any thread may call everything except close() and the destructor. In a forked child
// all calls do nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/hardware.h"
#include "mfu/measure.h"
#include "mfu/result.h"
#include "mfu/sink.h"
#include "mfu/steps.h"
#include "mfu/units.h"

namespace mfu {

class CounterSource;  // hardware counters, which the monitor opens itself

// The settings. Comments give their names in YAML.
struct MonitorConfig {
  bool enabled = true;                   // enable_mfu_tracking
  Mode mode = SmartMode{};               // mfu_calculation_mode and its settings
  Schedule schedule{};                   // flops_profile_freq, measure_flops_frequency, by phase
  std::uint64_t generation_every = 10;   // mfu_calculation_freq, in steps
  std::uint64_t training_log_every = 1;  // freq.training_log_freq, in steps; 0 means never
  std::uint64_t perf_log_every = 1;      // freq.perf_log_freq
  std::uint64_t device_log_every = 1;    // freq.gpu_log_freq
  std::uint64_t local_save_every = 1;    // freq.local_save_freq
  bool zero_where_unmeasured = false;    // unmeasured: zero
  bool skip_wandb = false;
  std::string output_dir{};                    // if empty, only the files named below are written
  std::string log_file = "training_log.json";  // in output_dir
  // Where steps survive a kill -9. If empty, it is mfu-run in output_dir.
  std::string run_dir{};
  bool keep_run = true;                  // false ("run_dir: none"): there is no run directory
  std::string model{};                   // config.json, a folder that has one, …
  std::string device{};                  // a name of the catalogue, or "auto"
  std::optional<Precision> precision{};  // dtype
  std::optional<FlopRate> peak{};        // of one device; wins over `device`
  std::uint64_t devices = 1;
  bool console = false;
  std::string csv{}, jsonl{}, tensorboard{}, prometheus{};  // paths
  std::string otlp{}, mlflow{}, mlflow_run{};               // addresses, and MLflow's run id
};

// One setting that was read.
struct ConfigSetting {
  std::string key;      // as written: "monitor.freq.flops_profile_freq"
  std::string value;    // as written
  std::string meaning;  // a sentence that explains it
  std::size_t line = 0;
};

struct ConfigReading {
  MonitorConfig config;                 // wrong settings keep their defaults
  std::vector<ConfigSetting> settings;  // in the order of the file
  std::vector<std::string> problems;    // with file, line, column and a suggestion
};

// Reads settings. Fails only if the text is not YAML. A training loop uses what could be read and
// warns about the problems.
Result<ConfigReading> read_monitor_config(std::string_view text, std::string_view name);

// A setting that a program gives as a value, such as a keyword argument.
struct GivenSetting {
  std::string key;     // without its section: "sinks.csv"
  std::string value;   // as it would stand in a file: "500", "true"
  bool words = false;  // it is a text, even if it looks like a number
};
// One source of settings: a YAML text, or values.
struct ConfigSource {
  std::string name;    // for messages
  std::string text{};  // YAML
  std::vector<GivenSetting> given{};
};
// Reads several sources. If two have the same setting, the first one wins. A source that cannot be
// read is a problem, not a failure.
ConfigReading read_monitor_config(std::span<const ConfigSource> sources);

// Reads a settings file of 1 MB at most. Fails with `io` or `malformed`.
Result<ConfigSource> open_monitor_config(const std::string& path);

// Like read_monitor_config(), but fails if there is any problem.
Result<MonitorConfig> parse_monitor_config(std::string_view text, std::string_view name);

// The settings for one rank. Each rank gets its own files (log.rank3.json, board/rank3), so that no
// two ranks write to the same one. Rank 0 keeps the names and the console.
MonitorConfig of_rank(MonitorConfig config, std::uint32_t rank);

// mfu.config_check/1
std::string to_json(const ConfigReading& reading);

// Whether the text has any settings of the monitor.
bool has_monitor_settings(std::string_view text);

// What a loop tells about one step of its rank. It leaves out what it does not know.
struct StepInfo {
  std::uint64_t step = 0;
  std::optional<double> epoch{}, loss{}, grad_norm{}, learning_rate{};
  std::optional<double> duration_s{};       // none: the time since the last log_step
  StepShape shape{};                        // gives tokens and samples too
  std::uint64_t samples = 0;                // 0: shape.sequences
  std::optional<FlopCount> counted_flop{};  // if this step was counted; see also add_reading
};

struct MonitorOptions {
  MonitorConfig config{};
  std::optional<ModelSpec> model{};  // if none, config.model is read
  // The text of the model's config.json, if it was made from one. With it the steps in the run
  // directory can be replayed, including their FLOPs.
  std::string model_json{};
  // Which weights are trained; by default all. A plan in `training` wins over `trained`, which also
  // works for a model that only config.model names.
  TrainingOptions trained{};
  std::optional<TrainingPlan> training{};
  Recompute recompute = Recompute::none;
  std::optional<FlopRate> peak{};  // of one device; if none, config.peak, then config.device
  std::string peak_source{};
  // What device "auto" means. If none: the accelerator with this rank's number, else the processor.
  std::optional<DeviceTraits> own_device{};
  std::optional<ByteRate> bandwidth{};
  std::optional<double> flop_per_token{};  // of generation, instead of the model's
  std::optional<std::uint32_t> rank{};
  std::vector<std::unique_ptr<Sink>> sinks{};  // in addition to those of the config
  std::shared_ptr<CounterSource> counters{};   // for hybrid mode
  std::size_t queue_capacity = 4096;           // in steps; a power of two
  // How long close() waits for sinks that hang (a pipe that nobody reads, a server that is gone).
  // After that it returns. Steps in the run directory are safe; what such a sink did not take is
  // lost.
  std::chrono::milliseconds close_patience{10'000};
  // What each phase of this process did so far, from an observer inside it (mfu/observer.h).
  // log_step calls it when a period of generation ends, in the calling thread, so it must not wait.
  std::function<std::vector<PhaseDone>()> phases{};
  // Called once per warning, from the background thread or from the thread that calls open().
  std::function<void(const std::string&)> on_warning{};
};

struct MonitorStatus {
  std::uint64_t logged = 0;  // steps that log_step took
  // Steps that were lost, because the queue was full or the disk of the run directory refused them
  // for too long. There is one warning.
  std::uint64_t dropped = 0;
  std::uint64_t reported = 0;
  std::uint64_t unsent = 0;   // reports that sinks lost, summed over all sinks
  std::string run_directory;  // where steps survive a kill -9; empty if nowhere
};

class Monitor {
 public:
  // Fails if options contradict each other (a capacity that is not a power of two). If something is
  // only missing (an unreadable model, an unknown device, a directory that cannot be written),
  // there is a warning and the loop goes on with the numbers that remain.
  static Result<std::unique_ptr<Monitor>> open(MonitorOptions options,
                                               const Clock& clock = Clock::system());
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // The hot path: it reads the clock and writes 128 bytes into a queue that is ready in memory. If
  // the queue is full, the step is dropped and counted as dropped.
  void log_step(const StepInfo& info) noexcept;
  // Logs a step of which a device has not computed all numbers yet. Returns a ticket; complete()
  // adds the rest later, from any thread. Reports keep their order, so the reports of later steps
  // wait too. Once half of the queue is waiting, the step is reported without those numbers.
  // Returns 0 if the step was dropped.
  std::uint32_t log_awaited(const StepInfo& info) noexcept;
  // `arrived` has the numbers and the shape that were missing. Its `step` is ignored.
  void complete(std::uint32_t ticket, const StepInfo& arrived) noexcept;
  // Adds the counted FLOPs of a step. Call it before that step is logged.
  void add_reading(const FlopReading& reading) noexcept;
  // Takes the result of calibration() on another rank.
  void add_calibration(const Calibration& calibration) noexcept;
  void set_phase(TrainingPhase phase) noexcept;
  // Whether the FLOPs of this step should be measured: because the schedule says so, or because
  // smart mode has no calibration. It costs two loads.
  bool measurement_due(std::uint64_t step) const noexcept;

  // For generation. Any thread may use these.
  TokenTracker& tokens() noexcept;
  void count_tokens(std::uint64_t tokens) noexcept { this->tokens().add(tokens); }

  std::optional<StepReport> last_report() const;
  Calibration calibration() const;
  std::vector<std::string> warnings() const;
  MonitorStatus status() const;

  // Waits until every sink has been offered what was logged so far. False if that took too long. Do
  // not call it in a training loop.
  bool flush(std::chrono::milliseconds patience);
  // Sends everything to the sinks and ends the thread, within close_patience. So does the
  // destructor.
  void close();
  void close(std::chrono::milliseconds patience);

 private:
  struct State;
  explicit Monitor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mfu
