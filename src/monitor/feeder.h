// Reports to one sink, whatever it does: what it refuses is kept (bounded) and offered again with
// growing pauses; its failure is said once and reaches nobody else.
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

  // `batch`: as many reports are gathered before they are written; 0: until the end.
  SinkFeeder(std::unique_ptr<Sink> sink, const Clock& clock, std::uint64_t batch,
             std::function<void(std::string)> warn);

  // Where too many wait, those are written; where that cannot be, the oldest is lost.
  void offer(StepReport report);
  // Writes what is due. With `all`, also an incomplete batch, and without waiting for the pause
  // after a failure.
  void pump(bool all);
  // Says once that reports are lost because they come faster than the sink takes them. Any thread.
  void say_loss() const;
  // The same of a sink that hangs at the end, with how many reports did not reach it.
  void say_hang(std::uint64_t reports) const;
  void close();

  std::uint64_t lost() const { return lost_; }
  std::uint64_t written() const { return *written_; }  // reports; any thread
  std::size_t waiting() const { return waiting_.size(); }
  std::chrono::nanoseconds next() const { return next_; }  // before that nothing is due

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
