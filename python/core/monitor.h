// A monitor with what Python needs beside it: reports for sinks written in Python, and a flag by
// which the monitor's thread says that there is something to say.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core.h"

namespace mfu::python {

// From the monitor's thread to whoever takes: bounded, never waits for the other side.
class Outbox {
 public:
  static constexpr std::size_t kMost = 4096;

  void put(std::string line) {
    std::lock_guard lock(mutex_);
    if (lines_.size() == kMost) {
      lines_.pop_front();
      ++lost_;
    }
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> take() {
    std::lock_guard lock(mutex_);
    std::vector<std::string> taken(std::make_move_iterator(lines_.begin()),
                                   std::make_move_iterator(lines_.end()));
    lines_.clear();
    return taken;
  }
  std::uint64_t lost() const {
    std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<std::string> lines_;
  std::uint64_t lost_ = 0;
};

struct LoopMonitor {
  LoopMonitor() = default;
  LoopMonitor(LoopMonitor&&) = default;
  // One that nobody closed: its sinks may take their time, and the program's other threads go on.
  ~LoopMonitor() {
    if (!monitor) return;
    nanobind::gil_scoped_release others;
    monitor.reset();
  }

  std::shared_ptr<Outbox> outbox = std::make_shared<Outbox>();
  std::shared_ptr<std::atomic<bool>> notice = std::make_shared<std::atomic<bool>>(false);
  pid_t process = ::getpid();        // in a forked child no call does anything
  std::unique_ptr<Monitor> monitor;  // last: its thread uses the others
};

// A callable with log_step's arguments, bound to that monitor (`owner` is the object that holds
// it). Plain numbers go straight to the queue; `slow(**arguments)` is called where one of them is
// anything else, `notice(step)` where the flag stands. What these raise is the program's own (they
// catch what is ours), and goes on to it. `shape` is taken where none is given: five numbers of
// StepShape.
nanobind::object log_step_function(LoopMonitor& monitor, nanobind::object owner,
                                   nanobind::object slow, nanobind::object notice,
                                   const std::vector<std::uint64_t>& shape);
// The same for count_tokens(tokens).
nanobind::object count_tokens_function(LoopMonitor& monitor, nanobind::object owner,
                                       nanobind::object slow);
// log_step's arguments, all of them plain numbers, as a step; `invalid_argument` raised otherwise.
StepInfo step_info(const nanobind::dict& arguments);

}  // namespace mfu::python
