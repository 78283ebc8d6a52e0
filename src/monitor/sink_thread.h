// Runs a sink on its own thread. A sink that hangs (a pipe that nobody reads, a server that is
// gone, a disk that stalls) then holds up neither the other sinks nor the journal. The monitor's
// thread hands reports over. At most a bounded number wait; what is lost is counted.
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
  // A sink that does nothing for this long, although it could, counts as stalled.
  static constexpr std::chrono::milliseconds kStall{250};

  SinkThread(SinkFeeder feeder, const Clock& clock, std::chrono::milliseconds stall = kStall);
  // Contract: the thread has ended. If it hangs, this object must not be destroyed.
  ~SinkThread();
  SinkThread(const SinkThread&) = delete;
  SinkThread& operator=(const SinkThread&) = delete;

  // Waits until there is room for that many reports, as long as the sink makes progress.
  // `meanwhile` is called now and then. A stalled sink is not waited for until it has written
  // something again. Returns whether there is room.
  bool await_room(std::size_t reports, const std::function<void()>& meanwhile);
  // Adds reports. If there is no room, the oldest are lost.
  void offer(std::span<const StepReport> reports);
  // Call it now and then. It wakes the thread if something is due.
  void nudge();
  // Asks the thread to write everything, including incomplete batches. answered() waits for that
  // and returns false if it took too long.
  void ask();
  bool answered(std::chrono::steady_clock::time_point deadline);
  // Asks the thread to end. ended() waits for it.
  void stop();
  bool ended(std::chrono::steady_clock::time_point deadline);
  // Gives up on a thread that hangs, with a warning. The thread and all that it uses stay until the
  // process ends.
  void leave();

  // The number of reports that the sink will never get. After stop() it includes those that wait.
  std::uint64_t lost() const;

 private:
  void run();
  bool is_runnable() const;
  std::chrono::nanoseconds processor_time();

  SinkFeeder feeder_;  // used by the thread only
  const Clock& clock_;
  const std::chrono::milliseconds stall_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<StepReport> inbox_;
  bool nudged_ = false, stop_ = false, ended_ = false;
  std::optional<std::uint64_t> stalled_;  // how much it had written when it was found stalled
  std::uint64_t asked_ = 0, answered_ = 0;
  std::uint64_t inbox_lost_ = 0, feeder_lost_ = 0, in_hand_ = 0;
  std::chrono::nanoseconds next_{};
  std::atomic<int> number_ = 0;  // the kernel's number of the thread
  std::thread thread_;           // the last member, because it uses the others
};

}  // namespace mfu
