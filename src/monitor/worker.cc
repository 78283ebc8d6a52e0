#include "monitor/worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "model/spec_json.h"
#include "monitor/resolve.h"

namespace mfu {

namespace {

constexpr std::size_t kBatch = 512;
constexpr std::chrono::nanoseconds kJournalPause = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds kSamplePause = std::chrono::milliseconds(200);
constexpr std::size_t kMostBeside = 65536;

std::string region_folder() {
  const char* named = std::getenv("MFU_REGION_DIR");
  return named == nullptr || *named == '\0' ? "/dev/shm" : named;
}

// The model as a replay needs it, if no config.json describes it or if it is not trained as a
// whole.
std::string kept_model(const MonitorOptions& options) {
  if (!options.model || (!options.training && !options.model_json.empty())) return "";
  return keep_model({.model = *options.model, .training = options.training});
}

// The report for dashboards, without what the settings' frequencies leave out at this step.
std::optional<StepReport> thinned(const StepReport& report, const MonitorConfig& config) {
  auto due = [&](std::uint64_t every) { return every != 0 && report.step % every == 0; };
  StepReport thin = report;
  if (!due(config.training_log_every)) {
    thin.epoch = thin.loss = thin.grad_norm = thin.learning_rate = std::nullopt;
  }
  if (!due(config.perf_log_every)) {
    std::erase_if(thin.metrics, [](const StepMetric& m) { return m.name.starts_with("perf/"); });
  }
  if (scalars_of(thin).empty()) return std::nullopt;
  return thin;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::create(MonitorOptions options, const Clock& clock) {
  std::vector<std::string> warnings;
  resolve_options(options, [&](std::string message) { warnings.push_back(std::move(message)); });
  MonitorConfig& config = options.config;
  // Ranks that name the same directory share their calibration there. A directory that nobody named
  // may belong to one rank only.
  bool shared = !config.run_dir.empty();
  if (!shared && config.keep_run && !config.output_dir.empty()) {
    config.run_dir = config.output_dir + "/mfu-run";
  }
  std::string path, name = journal_name();
  bool kept = config.enabled && !config.run_dir.empty();
  if (kept) {
    recover_journals(config.run_dir);
    path = fmt::format("{}/mfu-{}.queue", region_folder(), name);
  }
  Result<StepQueue> queue = StepQueue::create(path, options.queue_capacity);
  if (!queue.has_value() && kept && queue.error().code == ErrorCode::io) {
    warnings.push_back(fmt::format("the steps of the last {} ms will not survive a kill -9: {}",
                                   kLook.count(), queue.error().message));
    path.clear();
    queue = StepQueue::create("", options.queue_capacity);
  }
  if (!queue.has_value()) return Failure{queue.error()};
  std::unique_ptr<Worker> worker(new Worker(options, clock, std::move(queue).value()));
  for (std::string& warning : warnings) worker->warn(warning);
  if (kept) worker->open_journal(options, name, path, shared);
  if (worker->enabled()) worker->add_sinks(std::move(options.sinks));
  return worker;
}

Worker::Worker(const MonitorOptions& options, const Clock& clock, StepQueue queue)
    : config_(options.config),
      clock_(clock),
      on_warning_(options.on_warning),
      queue_(std::move(queue)),
      tokens_(clock),
      pipeline_(pipeline_options(options, clock),
                [this](const std::string& message) { warn(message); }) {
  if (options.counters != nullptr) sampler_.emplace(options.counters);
  if (const auto* smart = std::get_if<SmartMode>(&config_.mode)) {
    wants_reading_ = smart->calibration_enabled && smart->initial_profiling;
  }
}

Worker::~Worker() = default;

void Worker::open_journal(const MonitorOptions& options, const std::string& name,
                          const std::string& queue_path, bool shared) {
  JournalFacts facts{.host = this_host(),
                     .pid = static_cast<std::uint32_t>(::getpid()),
                     .queue = queue_path,
                     .pipeline = pipeline_.options(),
                     .model_json = options.training ? "" : options.model_json,
                     .model_kept = kept_model(options)};
  Result<Journal> journal = Journal::create(config_.run_dir, name, std::move(facts));
  if (!journal.has_value()) {
    warn(fmt::format("steps will not survive a kill -9: {}", journal.error().message));
    if (!queue_path.empty()) ::unlink(queue_path.c_str());
    return;
  }
  journal_.emplace(std::move(journal).value());
  queue_path_ = queue_path;
  if (shared && options.rank && std::holds_alternative<SmartMode>(config_.mode)) {
    share_.emplace(config_.run_dir, *options.rank, clock_);
    if (!share_->leads()) wants_reading_ = false;
  }
}

void Worker::add_sinks(std::vector<std::unique_ptr<Sink>> given) {
  auto warn_of = [this](const std::string& message) { warn(message); };
  auto add = [&](ConfiguredSink each) {
    SinkFeeder feeder(std::move(each.sink), clock_, each.local ? config_.local_save_every : 1,
                      warn_of);
    feeds_.push_back(
        {std::make_unique<SinkThread>(std::move(feeder), clock_), each.local, each.file});
  };
  for (ConfiguredSink& each : configured_sinks(config_)) add(std::move(each));
  for (std::unique_ptr<Sink>& sink : given) add({.sink = std::move(sink)});
}

void Worker::warn(const std::string& message) {
  {
    std::lock_guard lock(mutex_);
    std::size_t before = diagnostics_.warnings().size();
    diagnostics_.warn(message);
    if (diagnostics_.warnings().size() == before) return;
  }
  if (on_warning_) on_warning_(message);
}

void Worker::sample_hardware() {
  const auto* hybrid = std::get_if<HybridMode>(&config_.mode);
  if (hybrid == nullptr || !hybrid->hardware_counters_enabled || !sampler_) return;
  std::chrono::nanoseconds now = clock_.now();
  if (sampled_.count() != 0 && now - sampled_ < kSamplePause) return;
  sampled_ = now;
  Result<FlopRate> rate = sampler_->rate();
  if (!rate.has_value() && rate.error().code != ErrorCode::not_found) {
    warn(fmt::format("hardware counters: {}; falling back", rate.error().message));
  }
  LoggedStep logged = logged_hardware(rate);
  pipeline_.take(logged);
  keep({processed_, logged});
}

// Rank 0 measures. The other ranks use its calibration as soon as they find it.
void Worker::share_calibration() {
  if (!share_) return;
  if (share_->leads()) {
    Result<void> written = share_->publish(pipeline_.calibration());
    if (!written.has_value()) {
      warn(fmt::format("other ranks do not get this one's calibration: {}",
                       written.error().message));
    }
    return;
  }
  if (std::optional<Calibration> news = share_->news()) {
    LoggedStep logged = logged_calibration(*news);
    logged.kind = LoggedKind::shared;
    pipeline_.take(logged);
    keep({processed_, logged});
  }
  // A rank that received rank 0's calibration another way does not miss it here.
  bool missed = share_->heard() || pipeline_.calibration().readings == 0;
  if (share_->lost() && missed) {
    warn(
        fmt::format("nothing was heard of rank 0 in {} for {} s: this rank goes on with the "
                    "estimate it has",
                    config_.run_dir, CalibrationShare::kSilence.count()));
  }
}

// Puts an entry of this thread into the journal, next to the steps.
void Worker::keep(const JournalEntry& entry) {
  if (journal_ && beside_.size() < kMostBeside) beside_.push_back(entry);
}

void Worker::write_journal() {
  if (!journal_) {
    journaled_ = processed_;
    return;
  }
  if (journal_next_.count() != 0 && clock_.now() < journal_next_) return make_room();
  std::vector<JournalEntry> entries = beside_;
  std::uint64_t at = journaled_;
  for (const LoggedStep* step = nullptr; (step = queue_.at(at)) != nullptr; ++at) {
    entries.push_back({at, *step});
  }
  if (entries.empty()) return;
  Result<void> written = journal_->append(entries);
  for (const std::string& note : journal_->take_notes()) warn(note);
  if (!written.has_value()) {
    hold_back(written.error());
    return;
  }
  journal_next_ = {};
  journaled_ = at;
  beside_.clear();
}

void Worker::hold_back(const Error& refused) {
  journal_next_ = clock_.now() + kJournalPause;
  if (!journal_warned_) {
    journal_warned_ = true;
    warn(
        fmt::format("{}; the newest {} steps are held in memory meanwhile, older ones are counted "
                    "as dropped",
                    refused.message, queue_.capacity() * 3 / 4));
  }
  make_room();
}

// The disk refuses, so the queue keeps the newest steps. The oldest are dropped from it once they
// were reported. So a full disk stops neither the loop nor the other sinks, but the run directory
// lacks those steps.
void Worker::make_room() {
  std::uint64_t held = queue_.head() - journaled_, most = queue_.capacity() * 3 / 4;
  std::uint64_t until = std::min(processed_, journaled_ + (held > most ? held - most : 0));
  std::uint64_t steps = 0;
  for (; journaled_ < until; ++journaled_) {
    const LoggedStep* step = queue_.at(journaled_);
    if (step != nullptr && step->kind == LoggedKind::step) ++steps;
  }
  queue_.count_dropped(steps);
}

void Worker::end_period(std::uint64_t step) {
  if (config_.generation_every == 0 || step % config_.generation_every != 0) return;
  TokenPeriod period = tokens_.take();
  if (period.generated == 0 && period.prompt_tokens == 0) return;  // nothing was generated
  LoggedStep logged = logged_period(period);
  pipeline_.take(logged);
  keep({processed_, logged});
}

// Looks for numbers that arrived after their step.
void Worker::look_ahead() {
  looked_ = std::max(looked_, processed_);
  for (const LoggedStep* each = nullptr; (each = queue_.at(looked_)) != nullptr; ++looked_) {
    if (each->kind == LoggedKind::arrived) arrived_[each->ticket] = *each;
  }
}

std::optional<LoggedStep> Worker::next(bool ending) {
  const LoggedStep* logged = queue_.at(processed_);
  if (logged == nullptr) return std::nullopt;
  if (logged->kind == LoggedKind::arrived) arrived_.erase(logged->ticket);
  if ((logged->has & awaits) == 0 || logged->kind != LoggedKind::step) return *logged;
  auto found = arrived_.find(logged->ticket);
  if (found != arrived_.end()) return completed(*logged, found->second);
  return ending || behind() ? std::optional(*logged) : std::nullopt;
}

std::size_t Worker::process(std::size_t most, bool ending) {
  std::optional<StepReport> newest;
  std::size_t reports = 0, taken = 0;
  std::uint64_t next_step = 0;
  for (; taken < most; ++taken) {
    std::optional<LoggedStep> logged = next(ending);
    if (!logged) break;
    if (logged->kind == LoggedKind::step) {
      next_step = logged->step + 1;
      end_period(logged->step);
    }
    std::optional<StepReport> report = pipeline_.take(*logged);
    ++processed_;
    if (!report) continue;
    fresh_.push_back(*report);
    newest = std::move(report);
    ++reports;
  }
  if (taken == 0) return 0;
  bool measures = !share_ || share_->leads();
  wants_reading_.store(measures && pipeline_.wants_reading(next_step), std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  if (newest) last_ = std::move(newest);
  calibration_ = pipeline_.calibration();
  reported_ += reports;
  return taken;
}

void Worker::feed() {
  std::vector<StepReport> thin;
  auto is_local = [](const Feed& each) { return each.local; };
  if (!fresh_.empty() && !std::all_of(feeds_.begin(), feeds_.end(), is_local)) {
    for (const StepReport& report : fresh_) {
      if (std::optional<StepReport> less = thinned(report, config_)) thin.push_back(*less);
    }
  }
  for (Feed& each : feeds_) {
    const std::vector<StepReport>& reports = each.local ? fresh_ : thin;
    // While this waits, a loop that logs without a pause fills the queue, which then drops steps
    // and counts them. Their tokens are reported with the next step, so no log lacks any.
    if (each.file) each.sink->await_room(reports.size(), [this] { write_journal(); });
    each.sink->offer(reports);
    each.sink->nudge();
  }
  fresh_.clear();
}

void Worker::free_done() {
  for (std::uint64_t until = std::min(processed_, journaled_); freed_ < until; ++freed_) {
    queue_.free(freed_);
  }
}

// A full queue is the only way to lose a step. There is one warning, and every loss is counted.
void Worker::warn_of_drops() {
  std::uint64_t dropped = queue_.dropped();
  if (drops_warned_ || dropped == 0) return;
  drops_warned_ = true;
  warn(
      fmt::format("steps are dropped, {} so far: they come faster than they can be kept, or a disk "
                  "stalls; a larger queue_capacity holds more than {} (status() counts them)",
                  dropped, queue_.capacity()));
}

void Worker::drain(bool all, bool ending) {
  sample_hardware();
  share_calibration();
  std::uint64_t until = queue_.head();
  std::size_t taken = 0;
  do {
    write_journal();
    look_ahead();
    taken = process(kBatch, ending);
    // Entries of this thread go to the journal before a sink gets the report.
    if (!beside_.empty()) write_journal();
    if (!journal_) journaled_ = processed_;
    free_done();
    feed();
  } while (taken == kBatch && processed_ < until);
  write_journal();
  free_done();
  warn_of_drops();
  for (Feed& each : feeds_) {
    if (all) each.sink->ask();
  }
}

void Worker::finish() {
  for (Feed& each : feeds_) each.sink->stop();
  if (share_ && share_->leads()) (void)share_->end();
  journal_next_ = {};
  write_journal();
  // If not all steps are on the disk, the queue is kept for readers of the run directory.
  if (journal_ && journaled_ == queue_.head() && journal_->end(queue_.dropped()).has_value()) {
    if (!queue_path_.empty()) ::unlink(queue_path_.c_str());
  }
}

bool Worker::sinks_answered(Deadline deadline) {
  return std::all_of(feeds_.begin(), feeds_.end(),
                     [&](Feed& each) { return each.sink->answered(deadline); });
}

bool Worker::sinks_ended(Deadline deadline) {
  bool all = true;
  for (Feed& each : feeds_) {
    if (each.sink->ended(deadline)) continue;
    each.sink->leave();
    all = false;
  }
  return all;
}

bool Worker::measurement_due(std::uint64_t step, TrainingPhase phase) const {
  if (!config_.enabled || std::holds_alternative<EstimateMode>(config_.mode)) return false;
  if (config_.schedule.fixed == 0u) return false;  // never
  if (share_ && !share_->leads()) return false;    // rank 0 measures
  return config_.schedule.due(step, phase) || wants_reading_.load(std::memory_order_relaxed);
}

std::optional<StepReport> Worker::last_report() const {
  std::lock_guard lock(mutex_);
  return last_;
}

Calibration Worker::calibration() const {
  std::lock_guard lock(mutex_);
  return calibration_;
}

std::vector<std::string> Worker::warnings() const {
  std::lock_guard lock(mutex_);
  return diagnostics_.warnings();
}

MonitorStatus Worker::status() const {
  MonitorStatus status;
  status.dropped = queue_.dropped();
  {
    std::lock_guard lock(mutex_);
    status.reported = reported_;
  }
  for (const Feed& each : feeds_) status.unsent += each.sink->lost();
  if (journal_) status.run_directory = config_.run_dir;
  return status;
}

}  // namespace mfu
