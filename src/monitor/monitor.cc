#include "mfu/monitor.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/fork.h"
#include "monitor/worker.h"

namespace mfu {

namespace {

std::chrono::steady_clock::time_point deadline_in(std::chrono::milliseconds patience) {
  return std::chrono::steady_clock::now() + patience;
}

PhaseDone difference(const PhaseDone& now, const PhaseDone& before) {
  PhaseDone since{.phase = now.phase,
                  .tokens = now.tokens - before.tokens,
                  .flop = now.flop - before.flop,
                  .time = now.time - before.time};
  if (now.moved) since.moved = Bytes{now.moved->count - before.moved.value_or(Bytes{}).count};
  return since;
}

}  // namespace

struct Monitor::State {
  State(std::unique_ptr<Worker> made, const Clock& its_clock)
      : worker(std::move(made)), clock(its_clock) {}

  // Whether this process made the monitor. A forked child has neither its threads nor its queue.
  bool ours() const { return made_after == forks(); }

  // Fills the record of a step. `more` is added to the bits that say which numbers were given.
  [[gnu::always_inline]] void fill(LoggedStep& logged, const StepInfo& info,
                                   std::uint16_t more) const noexcept {
    std::uint16_t has = more;
    auto keep = [&](double& to, const std::optional<double>& value, LoggedHas bit) {
      to = value.value_or(0);
      if (value) has = static_cast<std::uint16_t>(has | bit);
    };
    logged.kind = LoggedKind::step;
    logged.phase = static_cast<std::uint8_t>(phase.load(std::memory_order_relaxed));
    logged.step = info.step;
    keep(logged.of.epoch, info.epoch, has_epoch);
    keep(logged.of.loss, info.loss, has_loss);
    keep(logged.of.grad_norm, info.grad_norm, has_grad_norm);
    keep(logged.of.learning_rate, info.learning_rate, has_learning_rate);
    keep(logged.duration_s, info.duration_s, has_duration);
    keep_shape(logged, info.shape);
    logged.samples = info.samples;
    if (info.counted_flop) has |= has_flop;
    logged.flop_low = info.counted_flop ? info.counted_flop->low() : 0;
    logged.flop_high = info.counted_flop ? info.counted_flop->high() : 0;
    logged.has = has;
  }

  // Puts a record into the queue. If the queue is full, the record is dropped and counted.
  void push(const LoggedStep& logged) noexcept {
    if (!ours() || !worker->enabled()) return;
    std::uint64_t position = 0;
    QueueSlot* slot = worker->queue().claim(position);
    if (slot == nullptr) return;
    slot->step = logged;
    StepQueue::publish(*slot, position);
    beside.fetch_add(1, std::memory_order_relaxed);
  }

  bool ends_period(std::uint64_t step) const noexcept {
    return phases_every != 0 && step % phases_every == 0;
  }
  // A period ends with the step that is logged next. What each phase did in it is queued first.
  void push_phases() noexcept {
    try {
      std::lock_guard lock(phases_mutex);
      std::chrono::nanoseconds now = clock.now(), elapsed = now - phases_taken;
      phases_taken = now;
      for (const PhaseDone& each : phases()) {
        PhaseDone& before = phases_before[static_cast<std::size_t>(each.phase) % kRunPhases];
        PhaseDone since = difference(each, before);
        before = each;
        if (since.time.count() > 0 || since.tokens != 0) push(logged_phase(since, elapsed));
      }
    } catch (...) {  // the report then has no such numbers
    }
  }

  std::unique_ptr<Worker> worker;
  const Clock& clock;
  std::function<std::vector<PhaseDone>()> phases;
  std::uint64_t phases_every = 0;  // in steps; 0: phases are not asked for
  std::mutex phases_mutex;
  std::array<PhaseDone, kRunPhases> phases_before{};
  std::chrono::nanoseconds phases_taken{};
  unsigned made_after = forks();
  std::atomic<TrainingPhase> phase = TrainingPhase::main;
  std::atomic<std::uint64_t> beside = 0;  // queued, and no step
  std::atomic<std::uint32_t> tickets = 0;
  std::mutex mutex;
  std::condition_variable wake, done;
  bool stop = false, ended = false, left = false;
  std::chrono::milliseconds patience{};
  std::uint64_t flush_wanted = 0, flush_done = 0;
  std::thread thread;
  State* left_before = nullptr;  // another that had to be left

  // The background thread. It looks at the queue now and then. If the loop woke it at each step,
  // the loop would pay for a system call, and each look costs the machine some 50 µs.
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait_for(lock, Worker::kLook,
                    [&] { return stop || flush_wanted > flush_done || worker->behind(); });
      bool ending = stop;
      std::uint64_t wanted = flush_wanted;
      bool all = ending || wanted > flush_done;
      lock.unlock();
      worker->drain(all, ending);
      if (ending) worker->finish();
      lock.lock();
      flush_done = wanted;
      ended = ending;
      done.notify_all();
      if (ending) return;
    }
  }
};

Monitor::Monitor(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Monitor>> Monitor::open(MonitorOptions options, const Clock& clock) {
  watch_forks();
  hold_standard_descriptors();
  std::chrono::milliseconds patience = options.close_patience;
  std::function<std::vector<PhaseDone>()> phases = options.phases;
  std::uint64_t every = options.config.generation_every;
  std::unique_ptr<Worker> worker = MFU_TRY(Worker::create(std::move(options), clock));
  auto state = std::make_unique<State>(std::move(worker), clock);
  state->patience = patience;
  if (phases) {
    state->phases = std::move(phases);
    state->phases_every = every;
    for (const PhaseDone& each : state->phases()) {
      state->phases_before[static_cast<std::size_t>(each.phase) % kRunPhases] = each;
    }
    state->phases_taken = clock.now();
  }
  State* running = state.get();
  if (running->worker->enabled()) running->thread = quiet_thread([running] { running->run(); });
  return std::unique_ptr<Monitor>(new Monitor(std::move(state)));
}

Monitor::~Monitor() {
  if (state_->ours()) {
    close();
    if (!state_->left) return;
  }
  // This is a forked child, which has no thread to join and whose queue is the parent's; or a
  // thread hangs in a sink and still needs this state. The state is left alone, but stays
  // reachable, so that leak checkers do not complain.
  static std::atomic<State*> left = nullptr;
  State* mine = state_.release();
  mine->left_before = left.exchange(mine);
}

void Monitor::log_step(const StepInfo& info) noexcept {
  State& state = *state_;
  if (!state.ours() || !state.worker->enabled()) return;
  if (state.ends_period(info.step)) [[unlikely]]
    state.push_phases();
  StepQueue& queue = state.worker->queue();
  std::uint64_t position = 0;
  QueueSlot* slot = queue.claim(position);
  if (slot == nullptr) return;
  state.fill(slot->step, info, 0);
  slot->step.end_ns = state.clock.now().count();
  StepQueue::publish(*slot, position);
  // The loop is too fast for kLook, so it is worth a system call now and then.
  if (queue.crowded(position)) state.wake.notify_one();
}

std::uint32_t Monitor::log_awaited(const StepInfo& info) noexcept {
  State& state = *state_;
  if (!state.ours() || !state.worker->enabled()) return 0;
  if (state.ends_period(info.step)) [[unlikely]]
    state.push_phases();
  StepQueue& queue = state.worker->queue();
  std::uint64_t position = 0;
  QueueSlot* slot = queue.claim(position);
  if (slot == nullptr) return 0;
  std::uint32_t ticket = state.tickets.fetch_add(1, std::memory_order_relaxed) + 1;
  state.fill(slot->step, info, awaits);
  slot->step.ticket = ticket;
  slot->step.end_ns = state.clock.now().count();
  StepQueue::publish(*slot, position);
  if (queue.crowded(position)) state.wake.notify_one();
  return ticket;
}

void Monitor::complete(std::uint32_t ticket, const StepInfo& arrived) noexcept {
  if (ticket == 0) return;
  LoggedStep logged;
  bool shaped = arrived.shape.tokens != 0 || arrived.shape.sequences != 0;
  state_->fill(logged, arrived, static_cast<std::uint16_t>(shaped ? has_shape : 0));
  logged.kind = LoggedKind::arrived;
  logged.ticket = ticket;
  state_->push(logged);
}

void Monitor::add_reading(const FlopReading& reading) noexcept {
  state_->push(logged_reading(reading));
}

void Monitor::add_calibration(const Calibration& calibration) noexcept {
  state_->push(logged_calibration(calibration));
}

void Monitor::set_phase(TrainingPhase phase) noexcept {
  state_->phase.store(phase, std::memory_order_relaxed);
}

bool Monitor::measurement_due(std::uint64_t step) const noexcept {
  if (!state_->ours()) return false;
  return state_->worker->measurement_due(step, state_->phase.load(std::memory_order_relaxed));
}

TokenTracker& Monitor::tokens() noexcept {
  return state_->worker->tokens();
}

std::optional<StepReport> Monitor::last_report() const {
  if (!state_->ours()) return std::nullopt;
  return state_->worker->last_report();
}

Calibration Monitor::calibration() const {
  if (!state_->ours()) return {};
  return state_->worker->calibration();
}

std::vector<std::string> Monitor::warnings() const {
  if (!state_->ours()) return {};
  return state_->worker->warnings();
}

MonitorStatus Monitor::status() const {
  if (!state_->ours()) return {};
  MonitorStatus status = state_->worker->status();
  status.logged = state_->worker->queue().head() - state_->beside.load();
  return status;
}

bool Monitor::flush(std::chrono::milliseconds patience) {
  State& state = *state_;
  if (!state.ours() || !state.thread.joinable()) return false;
  auto deadline = deadline_in(patience);
  std::unique_lock lock(state.mutex);
  std::uint64_t mine = ++state.flush_wanted;
  state.wake.notify_one();
  if (!state.done.wait_until(lock, deadline, [&] { return state.flush_done >= mine; })) {
    return false;
  }
  lock.unlock();
  return state.worker->sinks_answered(deadline);
}

void Monitor::close() {
  close(state_->patience);
}

void Monitor::close(std::chrono::milliseconds patience) {
  State& state = *state_;
  if (!state.ours() || !state.thread.joinable()) return;
  auto deadline = deadline_in(patience);
  std::unique_lock lock(state.mutex);
  state.stop = true;
  state.wake.notify_one();
  bool ended = state.done.wait_until(lock, deadline, [&] { return state.ended; });
  lock.unlock();
  ended ? state.thread.join() : state.thread.detach();
  // Ask both, so that whatever hangs is let go.
  bool sinks_ended = state.worker->sinks_ended(deadline);
  state.left = !ended || !sinks_ended;
}

}  // namespace mfu
