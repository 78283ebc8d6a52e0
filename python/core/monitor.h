// A monitor with what Python needs beside it: reports for sinks written in Python, and a flag by
// which the monitor's thread says that there is something to say.
#pragma once

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
  std::shared_ptr<Outbox> outbox = std::make_shared<Outbox>();
  std::shared_ptr<std::atomic<bool>> notice = std::make_shared<std::atomic<bool>>(false);
  // Steps wait for a device: those that follow wait behind them.
  std::shared_ptr<std::atomic<bool>> hold = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<Monitor> monitor;  // last: its thread uses the others
};

// A callable with log_step's arguments, bound to that monitor (`owner` is the object that holds
// it). Plain numbers go straight to the queue; `slow(**arguments)` is called where one of them is
// anything else or, unless it `passes`, where steps are held; `notice(step)` where the flag stands.
// `shape` is taken where none is given: five numbers of StepShape.
nanobind::object log_step_function(LoopMonitor& monitor, nanobind::object owner,
                                   nanobind::object slow, nanobind::object notice,
                                   const std::vector<std::uint64_t>& shape, bool passes);

}  // namespace mfu::python
