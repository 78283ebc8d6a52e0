// The work of the monitor's background thread: it takes steps from the queue, writes the journal,
// makes reports and feeds the sinks. Only that thread may call drain() and finish(); any thread may
// call the rest.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hardware/samples.h"
#include "mfu/monitor.h"
#include "monitor/journal.h"
#include "monitor/pipeline.h"
#include "monitor/share.h"
#include "monitor/sink_thread.h"
#include "monitor/step_queue.h"

namespace mfu {

class Worker {
 public:
  // How often the background thread looks.
  static constexpr std::chrono::milliseconds kLook{100};

  static Result<std::unique_ptr<Worker>> create(MonitorOptions options, const Clock& clock);
  ~Worker();

  bool enabled() const { return config_.enabled; }
  StepQueue& queue() { return queue_; }
  // For the draining thread: whether half of the queue is waiting.
  bool behind() const { return queue_.head() - processed_ >= queue_.capacity() / 2; }
  TokenTracker& tokens() { return tokens_; }

  // Processes everything in the queue. With `all`, sinks get incomplete batches too. With `ending`,
  // it does not wait for numbers that a device has not computed.
  void drain(bool all, bool ending);
  // Ends the journal, and asks the sinks to end.
  void finish();

  using Deadline = std::chrono::steady_clock::time_point;
  // Whether every sink has done what drain(true) asked it for.
  bool sinks_answered(Deadline deadline);
  // Whether every sink has ended. A sink that has not is left alone, and then the worker must not
  // be destroyed.
  bool sinks_ended(Deadline deadline);

  bool measurement_due(std::uint64_t step, TrainingPhase phase) const;
  std::optional<StepReport> last_report() const;
  Calibration calibration() const;
  std::vector<std::string> warnings() const;
  MonitorStatus status() const;

 private:
  struct Feed {
    std::unique_ptr<SinkThread> sink;
    bool local, file;
  };

  Worker(const MonitorOptions& options, const Clock& clock, StepQueue queue);
  void open_journal(const MonitorOptions& options, const std::string& name,
                    const std::string& queue_path, bool shared);
  void add_sinks(std::vector<std::unique_ptr<Sink>> given);
  void warn(const std::string& message);
  void sample_hardware();
  void share_calibration();
  void keep(const JournalEntry& entry);
  void write_journal();
  void hold_back(const Error& refused);
  void make_room();
  void look_ahead();
  // The record at processed_. None if it is not published yet or waits for its numbers.
  std::optional<LoggedStep> next(bool ending);
  // Processes up to `most` records and returns how many there were.
  std::size_t process(std::size_t most, bool ending);
  void end_period(std::uint64_t step);
  void feed();
  void free_done();
  void warn_of_drops();

  MonitorConfig config_;
  const Clock& clock_;
  std::function<void(const std::string&)> on_warning_;
  StepQueue queue_;
  std::string queue_path_;
  std::optional<Journal> journal_;
  std::optional<CalibrationShare> share_;  // if the job has no better way to share
  std::vector<JournalEntry> beside_;       // entries of this thread for the journal
  std::chrono::nanoseconds journal_next_{}, sampled_{};
  bool journal_warned_ = false, drops_warned_ = false;
  std::map<std::uint32_t, LoggedStep> arrived_;  // numbers of awaited steps, by ticket
  std::vector<StepReport> fresh_;                // reports that the sinks have not got yet
  TokenTracker tokens_;
  StepPipeline pipeline_;
  std::optional<CounterSampler> sampler_;
  std::vector<Feed> feeds_;
  // Positions in the queue.
  std::uint64_t processed_ = 0, journaled_ = 0, freed_ = 0, looked_ = 0;
  std::atomic<bool> wants_reading_ = false;

  mutable std::mutex mutex_;  // guards what other threads read
  std::optional<StepReport> last_;
  Calibration calibration_;
  Diagnostics diagnostics_;
  std::uint64_t reported_ = 0;
};

}  // namespace mfu
