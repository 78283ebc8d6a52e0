// A monitor with what Python needs beside it: reports for sinks written in Python, steps that wait
// for a device, and a flag by which the monitor's thread says that there is something to say.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
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

// A step some of whose numbers a device still has.
struct AwaitedStep {
  std::uint32_t ticket;
  nanobind::dict late;  // by argument; mfu/_masks.py has what they are
};
inline constexpr std::size_t kMostAwaited = 256;

struct LoopMonitor {
  LoopMonitor() = default;
  LoopMonitor(LoopMonitor&&) = default;
  // One that nobody closed: its sinks may take their time, and the program's other threads go on.
  ~LoopMonitor() {
    if (!monitor) return;
    nanobind::gil_scoped_release others;
    monitor.reset();
  }

  ConfigReading settings;
  std::shared_ptr<Outbox> outbox = std::make_shared<Outbox>();
  std::shared_ptr<std::atomic<bool>> notice = std::make_shared<std::atomic<bool>>(false);
  pid_t process = ::getpid();        // in a forked child no call does anything
  std::deque<AwaitedStep> waiting;   // used under the interpreter's lock
  bool asking = false;               // a thread asks for those
  std::unique_ptr<Monitor> monitor;  // last: its thread uses the others
};

// Keywords first, then the config: a YAML file's path, a dict, or an object with attributes
// (argparse, dataclasses, OmegaConf). What is wrong with either is among the problems.
ConfigReading read_settings(const nanobind::dict& keywords, const nanobind::handle& config);
nanobind::dict dict_of(const ConfigReading& settings);

StepShape shape_of(const std::vector<std::uint64_t>& sums);  // five numbers

// A callable with log_step's arguments, bound to that monitor, which `core` holds. Plain numbers go
// straight to the queue. `owner` is a weak reference to the mfu.Monitor: its _made_plain() gets the
// arguments where one of them is anything else, _arrived() says what a device has given, _notice()
// is called where the flag stands. What these raise is the program's own (they catch what is ours),
// and goes on to it. `shape` is taken where none is given.
nanobind::object log_step_function(LoopMonitor& monitor, nanobind::object core,
                                   nanobind::object owner, const std::vector<std::uint64_t>& shape);
// The same for count_tokens(tokens), and _count_slowly().
nanobind::object count_tokens_function(LoopMonitor& monitor, nanobind::object core,
                                       nanobind::object owner);
// What every log_step does first; how many steps still wait.
std::size_t take_arrived(LoopMonitor& monitor, nanobind::object owner);
// log_step's arguments in their order, each with its kind.
std::vector<std::pair<std::string, std::string>> step_arguments();

}  // namespace mfu::python
