#include "monitor/feeder.h"

#include <fmt/format.h>

#include <algorithm>

namespace mfu {

namespace {

constexpr std::chrono::nanoseconds kFirstPause = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds kLongestPause = std::chrono::seconds(60);

}  // namespace

SinkFeeder::SinkFeeder(std::unique_ptr<Sink> sink, const Clock& clock, std::uint64_t batch,
                       std::function<void(std::string)> warn)
    : sink_(std::move(sink)), clock_(clock), batch_(batch), warn_(std::move(warn)) {}

void SinkFeeder::offer(StepReport report) {
  if (waiting_.size() == kMostWaiting) pump(false);
  if (waiting_.size() == kMostWaiting) {
    waiting_.pop_front();
    ++lost_;
  }
  waiting_.push_back(std::move(report));
}

bool SinkFeeder::attempt(const Result<void>& result) {
  for (const std::string& note : sink_->take_notes()) warn_(note);
  if (result.has_value()) {
    pause_ = {};
    return true;
  }
  pause_ = pause_.count() == 0 ? kFirstPause : std::min(pause_ * 2, kLongestPause);
  next_ = clock_.now() + pause_;
  if (!warned_) {
    warned_ = true;
    warn_(fmt::format("{}: {}; it is tried again in the background, training goes on",
                      sink_->name(), result.error().message));
  }
  return false;
}

void SinkFeeder::pump(bool all) {
  bool due = all || (batch_ != 0 && waiting_.size() >= batch_) || waiting_.size() == kMostWaiting;
  if (waiting_.empty() || !due) return;
  bool early = clock_.now() < next_;
  bool pressed = pause_.count() == 0 && waiting_.size() >= kMostWaiting / 2;
  if (early && !all && !pressed) return;
  if (!open_) {
    open_ = attempt(sink_->open());
    if (!open_) return;
  }
  while (!waiting_.empty()) {
    std::size_t count = std::min(waiting_.size(), sink_->most_at_once());
    std::vector<StepReport> batch(waiting_.begin(), waiting_.begin() + static_cast<long>(count));
    if (!attempt(sink_->write(batch))) return;
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<long>(count));
    *written_ += count;
  }
  next_ = clock_.now() + sink_->pace();
}

void SinkFeeder::say_loss() const {
  warn_(
      fmt::format("{}: reports are lost, they come faster than it takes them (status() counts "
                  "them); mfu export has every step of a run directory",
                  sink_->name()));
}

void SinkFeeder::say_hang(std::uint64_t reports) const {
  warn_(
      fmt::format("{}: it hangs and is left behind; {} report(s) did not reach it; mfu export has "
                  "every step of a run directory",
                  sink_->name(), reports));
}

void SinkFeeder::close() {
  pump(true);
  lost_ += waiting_.size();
  waiting_.clear();
  if (open_) attempt(sink_->close());
  open_ = false;
}

}  // namespace mfu
