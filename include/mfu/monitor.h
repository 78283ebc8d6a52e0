// The monitor in the training loop: a step is logged in the time of a clock call, and one
// background thread makes MFU of it and feeds the sinks. Its settings are the documented YAML.
//
//   auto config = mfu::parse_monitor_config("monitor: {flops_profile_freq: 500}", "train.yaml");
//   auto monitor = MFU_TRY(mfu::Monitor::open({.config = *config, .peak = {{989.4e12}}}));
//   for (std::uint64_t step = 0; step < 1000; ++step) {
//     // … train …
//     monitor->log_step({.step = step, .loss = 2.3, .shape = mfu::StepShape::of(8, 4096)});
//   }
//
// Nothing here throws, blocks or fails into the loop: what is wrong with a number is said once, by
// warnings(), and the number is left out. Everything but close() and the destructor may be called
// from several threads; in a forked child every call does nothing.
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

class CounterSource;  // of hardware counters, opened by the monitor itself

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

// A setting that a program has as a value: its keywords, a dict of settings.
struct GivenSetting {
  std::string key;     // below the section: "sinks.csv"
  std::string value;   // as a file would have it: "500", "true"
  bool words = false;  // a text, which is no number even where it looks like one
};
// Where settings come from: a text, or values.
struct ConfigSource {
  std::string name;    // for problems
  std::string text{};  // YAML
  std::vector<GivenSetting> given{};
};
// Of several places the first that says a thing wins. What cannot be read is a problem.
ConfigReading read_monitor_config(std::span<const ConfigSource> sources);

// A file of settings (1 MB at most).
Result<ConfigSource> open_monitor_config(const std::string& path);

// The same, failed by any problem.
Result<MonitorConfig> parse_monitor_config(std::string_view text, std::string_view name);

// The same with files of that rank's own (log.rank3.json, board/rank3), so that no two ranks write
// one; rank 0 keeps the names, and has the console.
MonitorConfig of_rank(MonitorConfig config, std::uint32_t rank);

// mfu.config_check/1
std::string to_json(const ConfigReading& reading);

// Whether the file has settings of the monitor at all.
bool has_monitor_settings(std::string_view text);

// What a loop says of a step of its rank; what it does not know it leaves out.
struct StepInfo {
  std::uint64_t step = 0;
  std::optional<double> epoch{}, loss{}, grad_norm{}, learning_rate{};
  std::optional<double> duration_s{};       // none: since the last log_step
  StepShape shape{};                        // lengths that ran; also gives tokens and samples
  std::uint64_t samples = 0;                // 0: shape.sequences
  std::optional<FlopCount> counted_flop{};  // somebody counted this step: see also add_reading
};

struct MonitorOptions {
  MonitorConfig config{};
  std::optional<ModelSpec> model{};  // none: config.model is read, where it names one
  // The text of its config.json, where that is what the model was made from: with it a run
  // directory can be replayed, FLOPs included.
  std::string model_json{};
  // What of the model is trained; none: all of it. `trained` is planned for the model once that is
  // known, so it serves one that config.model names too; a plan of the caller's own wins.
  TrainingOptions trained{};
  std::optional<TrainingPlan> training{};
  Recompute recompute = Recompute::none;
  std::optional<FlopRate> peak{};  // of one device; none: config.peak, then that of config.device
  std::string peak_source{};
  // What device "auto" means; none: the accelerator of this rank's number, else the processor.
  std::optional<DeviceTraits> own_device{};
  std::optional<ByteRate> bandwidth{};
  std::optional<double> flop_per_token{};  // of generation, instead of the model's
  std::optional<std::uint32_t> rank{};
  std::vector<std::unique_ptr<Sink>> sinks{};  // beside those of the config
  std::shared_ptr<CounterSource> counters{};   // hybrid mode
  std::size_t queue_capacity = 4096;           // steps; a power of two
  // How long close() waits for sinks that hang (a pipe nobody reads, a server that is gone). Then
  // it returns: what a run directory holds is safe, what only such a sink was to get is lost.
  std::chrono::milliseconds close_patience{10'000};
  // Called once a warning, from the background thread or the one that opens.
  std::function<void(const std::string&)> on_warning{};
};

struct MonitorStatus {
  std::uint64_t logged = 0;  // calls of log_step that were taken
  // Steps that are nowhere: the queue was full, or the run directory's disk refused them for too
  // long. Warned of once.
  std::uint64_t dropped = 0;
  std::uint64_t reported = 0;
  std::uint64_t unsent = 0;   // reports that a sink lost, summed over the sinks
  std::string run_directory;  // where steps survive a kill -9; empty: nowhere
};

class Monitor {
 public:
  // Fails where options contradict each other (a capacity that is no power of two). What is merely
  // missing (an unreadable model, an unknown device, a directory that cannot be written) is a
  // warning: the loop goes on with the numbers that are left.
  static Result<std::unique_ptr<Monitor>> open(MonitorOptions options,
                                               const Clock& clock = Clock::system());
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // The hot path: a clock call and 128 bytes into memory prepared for it. A full queue drops the
  // step and counts that.
  void log_step(const StepInfo& info) noexcept;
  // A step some of whose numbers a device has not computed yet. It is logged now, as log_step does
  // it; complete() adds the rest, from any thread. Reports keep their order: this one and those
  // behind it wait for that, until half of the queue does; then it goes without. 0: dropped.
  std::uint32_t log_awaited(const StepInfo& info) noexcept;
  // `arrived`: numbers and shape that were missing; its `step` is not read.
  void complete(std::uint32_t ticket, const StepInfo& arrived) noexcept;
  // FLOPs that were counted for a step, before that step is logged.
  void add_reading(const FlopReading& reading) noexcept;
  // Another rank's calibration (calibration() there).
  void add_calibration(const Calibration& calibration) noexcept;
  void set_phase(TrainingPhase phase) noexcept;
  // Whether this step's FLOPs are worth measuring: by the schedule, or because smart mode has
  // nothing to go by. Two loads.
  bool measurement_due(std::uint64_t step) const noexcept;

  // Generation, from any thread.
  TokenTracker& tokens() noexcept;
  void count_tokens(std::uint64_t tokens) noexcept { this->tokens().add(tokens); }

  std::optional<StepReport> last_report() const;
  Calibration calibration() const;
  std::vector<std::string> warnings() const;
  MonitorStatus status() const;

  // Waits until what was logged so far has been offered to every sink once; false: not in time.
  // Not for loops.
  bool flush(std::chrono::milliseconds patience);
  // Everything to the sinks, the thread ended, within close_patience. The destructor does so too.
  void close();
  void close(std::chrono::milliseconds patience);

 private:
  struct State;
  explicit Monitor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mfu
