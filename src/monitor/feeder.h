// Feeds reports to one sink. Reports that the sink refuses are kept, up to a limit, and offered
// again after growing pauses. A failure causes one warning and affects no other sink.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mfu/sink.h"
#include "mfu/units.h"

namespace mfu {

class SinkFeeder {
 public:
  static constexpr std::size_t kMostWaiting = 4096;  // reports

  // `batch` is how many reports are collected before they are written; 0 means until the end.
  SinkFeeder(std::unique_ptr<Sink> sink, const Clock& clock, std::uint64_t batch,
             std::function<void(std::string)> warn);

  // Adds a report. If too many wait, they are written first; if that fails, the oldest is lost.
  void offer(StepReport report);
  // Writes what is due. With `all`, also an incomplete batch, and without waiting for the pause
  // after a failure.
  void pump(bool all);
  // Warns once that reports are lost because they come faster than the sink takes them. Any thread
  // may call it.
  void say_loss() const;
  // Warns that a sink hangs at the end, and how many reports did not reach it.
  void say_hang(std::uint64_t reports) const;
  void close();

  std::uint64_t lost() const { return lost_; }
  std::uint64_t written() const { return *written_; }  // reports; any thread may ask
  std::size_t waiting() const { return waiting_.size(); }
  std::chrono::nanoseconds next() const { return next_; }  // nothing is due before this time

 private:
  bool attempt(const Result<void>& result);

  std::unique_ptr<Sink> sink_;
  const Clock& clock_;
  std::uint64_t batch_;
  std::function<void(std::string)> warn_;
  std::deque<StepReport> waiting_;
  bool open_ = false, warned_ = false;
  std::chrono::nanoseconds pause_{}, next_{};  // after a failure; the next time it may be written
  std::uint64_t lost_ = 0;
  std::unique_ptr<std::atomic<std::uint64_t>> written_ =
      std::make_unique<std::atomic<std::uint64_t>>(0);
};

}  // namespace mfu
