// What the monitor's background thread does with the queue: journal, reports, sinks. drain() and
// close() are that thread's; the rest may be called by any.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mfu/monitor.h"
#include "monitor/feeder.h"
#include "monitor/journal.h"
#include "monitor/pipeline.h"
#include "monitor/share.h"
#include "monitor/step_queue.h"

namespace mfu {

class Worker {
 public:
  static Result<std::unique_ptr<Worker>> create(MonitorOptions options, const Clock& clock);
  ~Worker();

  bool enabled() const { return config_.enabled; }
  StepQueue& queue() { return queue_; }
  // For the thread that drains: half of the queue waits for it.
  bool behind() const { return queue_.head() - processed_ >= queue_.capacity() / 2; }
  TokenTracker& tokens() { return tokens_; }

  // Everything that is in the queue. With `all`, sinks get incomplete batches too.
  void drain(bool all);
  void close();

  bool measurement_due(std::uint64_t step, TrainingPhase phase) const;
  std::optional<StepReport> last_report() const;
  Calibration calibration() const;
  std::vector<std::string> warnings() const;
  MonitorStatus status() const;

 private:
  struct Feed {
    SinkFeeder feeder;
    bool local;
  };

  Worker(const MonitorOptions& options, const Clock& clock, StepQueue queue);
  void open_journal(const MonitorOptions& options, const std::string& name,
                    const std::string& queue_path);
  void add_sinks(std::vector<std::unique_ptr<Sink>> given);
  void warn(const std::string& message);
  void sample_hardware();
  void share_calibration();
  void keep(const JournalEntry& entry);
  void write_journal();
  // Up to `most` steps; how many there were.
  std::size_t process(std::size_t most);
  void end_period(std::uint64_t step);
  void feed(const StepReport& report);
  void free_done();

  MonitorConfig config_;
  const Clock& clock_;
  std::function<void(const std::string&)> on_warning_;
  StepQueue queue_;
  std::string queue_path_;
  std::optional<Journal> journal_;
  std::optional<CalibrationShare> share_;  // ranks of a run without anything better
  std::vector<JournalEntry> beside_;       // for the journal, made by this thread
  std::chrono::nanoseconds journal_next_{}, sampled_{};
  bool journal_warned_ = false;
  TokenTracker tokens_;
  StepPipeline pipeline_;
  std::optional<CounterSampler> sampler_;
  std::vector<Feed> feeds_;
  std::uint64_t processed_ = 0, journaled_ = 0, freed_ = 0;  // positions in the queue
  std::atomic<bool> wants_reading_ = false;

  mutable std::mutex mutex_;  // what others read
  std::optional<StepReport> last_;
  Calibration calibration_;
  Diagnostics diagnostics_;
  std::uint64_t reported_ = 0, unsent_ = 0;
};

}  // namespace mfu
