#include "monitor/sink_thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "base/fork.h"

namespace mfu {

namespace {

constexpr int kSilentTurns = 5;

}  // namespace

SinkThread::SinkThread(SinkFeeder feeder, const Clock& clock, std::chrono::milliseconds stall)
    : feeder_(std::move(feeder)),
      clock_(clock),
      stall_(stall),
      thread_(quiet_thread([this] { run(); })) {}

SinkThread::~SinkThread() {
  stop();
  if (thread_.joinable()) thread_.join();
}

// Whether the thread has a processor or waits for one. On a busy machine that takes a while.
bool SinkThread::is_runnable() const {
  std::ifstream file(fmt::format("/proc/self/task/{}/stat", number_.load()));
  std::string text;
  std::getline(file, text);
  std::size_t name_end = text.rfind(')');  // "17 (name) R ..."
  return name_end != text.npos && text.compare(name_end, 3, ") R") == 0;
}

std::chrono::nanoseconds SinkThread::processor_time() {
  clockid_t clock = {};
  timespec time = {};
  if (::pthread_getcpuclockid(thread_.native_handle(), &clock) != 0) return {};
  if (::clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// A sink makes progress if it has written a report, has used the processor (it formats a batch, or
// part of its bytes were taken), or wants the processor. A turn in which we ourselves were held up
// says nothing: who reads from the sink may have been held up as well.
bool SinkThread::await_room(std::size_t reports, const std::function<void()>& meanwhile) {
  using std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  auto room = [&] { return inbox_.size() + reports <= SinkFeeder::kMostWaiting; };
  if (room()) return true;
  if (stalled_ == feeder_.written()) return false;
  stalled_.reset();
  auto progress = [&] { return std::pair(feeder_.written(), processor_time()); };
  const std::chrono::nanoseconds turn = std::chrono::nanoseconds(stall_) / kSilentTurns;
  auto seen = progress();
  for (int silent = 0; silent < kSilentTurns;) {
    nudged_ = true;
    wake_.notify_one();
    steady_clock::time_point began = steady_clock::now();
    if (done_.wait_for(lock, turn, room)) return true;
    bool held_up = steady_clock::now() - began > 2 * turn;
    lock.unlock();
    meanwhile();
    auto now = progress();
    bool works = now != seen || is_runnable();
    lock.lock();
    if (works) {
      silent = 0;
    } else if (!held_up) {
      ++silent;
    }
    seen = now;
  }
  if (room()) return true;
  stalled_ = feeder_.written();
  return false;
}

void SinkThread::offer(std::span<const StepReport> reports) {
  std::unique_lock lock(mutex_);
  bool lost_before = inbox_lost_ != 0;
  for (const StepReport& report : reports) {
    if (inbox_.size() == SinkFeeder::kMostWaiting) {
      inbox_.pop_front();
      ++inbox_lost_;
    }
    inbox_.push_back(report);
  }
  bool first = !lost_before && inbox_lost_ != 0;
  lock.unlock();
  if (first) feeder_.say_loss();
}

void SinkThread::nudge() {
  std::lock_guard lock(mutex_);
  bool pressed = inbox_.size() >= SinkFeeder::kMostWaiting / 2;
  if (inbox_.empty() && in_hand_ == 0) return;
  if (clock_.now() < next_ && !pressed) return;
  nudged_ = true;
  wake_.notify_one();
}

void SinkThread::ask() {
  std::lock_guard lock(mutex_);
  ++asked_;
  wake_.notify_one();
}

bool SinkThread::answered(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  std::uint64_t mine = asked_;
  return done_.wait_until(lock, deadline, [&] { return answered_ >= mine || ended_; });
}

void SinkThread::stop() {
  std::lock_guard lock(mutex_);
  stop_ = true;
  wake_.notify_one();
}

bool SinkThread::ended(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (!done_.wait_until(lock, deadline, [&] { return ended_; })) return false;
  lock.unlock();
  // It is joined here, because this object is never destroyed if another sink hangs.
  if (thread_.joinable()) thread_.join();
  return true;
}

void SinkThread::leave() {
  thread_.detach();
  feeder_.say_hang(lost());
}

std::uint64_t SinkThread::lost() const {
  std::lock_guard lock(mutex_);
  std::uint64_t waiting = stop_ ? inbox_.size() + in_hand_ : 0;
  return inbox_lost_ + feeder_lost_ + waiting;
}

void SinkThread::run() {
  number_ = static_cast<int>(::gettid());
  std::unique_lock lock(mutex_);
  while (!ended_) {
    wake_.wait(lock, [&] { return stop_ || nudged_ || asked_ > answered_; });
    bool ending = stop_;
    std::uint64_t asked = asked_;
    bool all = ending || asked > answered_;
    nudged_ = false;
    std::deque<StepReport> taken = std::exchange(inbox_, {});
    in_hand_ += taken.size();
    done_.notify_all();  // tells a waiting thread that there is room again
    lock.unlock();
    for (StepReport& each : taken) feeder_.offer(std::move(each));
    ending ? feeder_.close() : feeder_.pump(all);
    lock.lock();
    in_hand_ = feeder_.waiting();
    feeder_lost_ = feeder_.lost();
    next_ = feeder_.next();
    answered_ = asked;
    ended_ = ending;
    done_.notify_all();
  }
}

}  // namespace mfu
