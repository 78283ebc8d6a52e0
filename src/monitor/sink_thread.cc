#include "monitor/sink_thread.h"

#include "base/fork.h"

namespace mfu {

SinkThread::SinkThread(SinkFeeder feeder, const Clock& clock)
    : feeder_(std::move(feeder)), clock_(clock), thread_(quiet_thread([this] { run(); })) {}

SinkThread::~SinkThread() {
  stop();
  thread_.join();
}

void SinkThread::await_room(std::size_t reports, const std::function<void()>& meanwhile) {
  using SteadyClock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  auto room = [&] { return inbox_.size() + reports <= SinkFeeder::kMostWaiting; };
  std::uint64_t written = feeder_.written();
  if (room() || stalled_ == written) return;
  stalled_.reset();
  SteadyClock::time_point moved = SteadyClock::now();
  while (!room()) {
    nudged_ = true;
    wake_.notify_one();
    if (done_.wait_for(lock, kStall / 5, room)) return;
    lock.unlock();
    meanwhile();
    lock.lock();
    if (std::uint64_t now = feeder_.written(); now != written) {
      written = now;
      moved = SteadyClock::now();
    } else if (SteadyClock::now() - moved > kStall) {
      stalled_ = written;
      return;
    }
  }
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
  return done_.wait_until(lock, deadline, [&] { return ended_; });
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
