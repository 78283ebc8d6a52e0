// A sink on a thread of its own: one that hangs (a pipe nobody reads, a server that is gone, a disk
// that stalls) holds up neither the others nor the journal. The monitor's thread hands reports
// over; what such a sink cannot take is bounded, and counted.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "monitor/feeder.h"

namespace mfu {

class SinkThread {
 public:
  explicit SinkThread(SinkFeeder feeder, const Clock& clock);
  // The thread must have ended: its owner is left alone otherwise.
  ~SinkThread();
  SinkThread(const SinkThread&) = delete;
  SinkThread& operator=(const SinkThread&) = delete;

  // A sink that has written nothing for so long is not waited for.
  static constexpr std::chrono::milliseconds kStall{250};

  // Waits until there is room for so many, as long as the sink moves; `meanwhile` is called now and
  // then. One that was found stalled is not waited for until it has moved again.
  void await_room(std::size_t reports, const std::function<void()>& meanwhile);
  // Where there is no room the oldest are lost.
  void offer(std::span<const StepReport> reports);
  // To be called now and then: wakes the thread where something is due.
  void nudge();
  // Asks for everything, also incomplete batches; answered() waits for that, false: not in time.
  void ask();
  bool answered(std::chrono::steady_clock::time_point deadline);
  // Asks for the end; ended() waits for it.
  void stop();
  bool ended(std::chrono::steady_clock::time_point deadline);
  // Lets a thread go that hangs, and says so: it and all it uses stay until the process ends.
  void leave();

  // Reports that the sink did not get and will not get; after stop(), those that wait too.
  std::uint64_t lost() const;

 private:
  void run();

  SinkFeeder feeder_;  // the thread's
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<StepReport> inbox_;
  bool nudged_ = false, stop_ = false, ended_ = false;
  std::optional<std::uint64_t> stalled_;  // how much it had written when it was given up
  std::uint64_t asked_ = 0, answered_ = 0;
  std::uint64_t inbox_lost_ = 0, feeder_lost_ = 0, in_hand_ = 0;
  std::chrono::nanoseconds next_{};
  std::thread thread_;  // last: it uses the others
};

}  // namespace mfu
