// A monitor with what Python needs in addition: reports for sinks written in Python, steps that
// wait for a device, and a flag that the monitor's thread sets when there is something to report.
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

// A bounded queue from the monitor's thread to whoever takes from it. Neither side waits.
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

// A step that waits for numbers from a device.
struct AwaitedStep {
  std::uint32_t ticket;
  nanobind::dict late;  // by argument; mfu/_masks.py knows what they are
};
inline constexpr std::size_t kMostAwaited = 256;

struct LoopMonitor {
  LoopMonitor() = default;
  LoopMonitor(LoopMonitor&&) = default;
  // If nobody closed it: its sinks may take their time, and the program's other threads go on.
  ~LoopMonitor() {
    if (!monitor) return;
    nanobind::gil_scoped_release others;
    monitor.reset();
  }

  ConfigReading settings;
  std::shared_ptr<Outbox> outbox = std::make_shared<Outbox>();
  std::shared_ptr<std::atomic<bool>> notice = std::make_shared<std::atomic<bool>>(false);
  // The observer's mfu_observer_read_phases, once it is loaded.
  std::shared_ptr<std::atomic<std::uintptr_t>> phases =
      std::make_shared<std::atomic<std::uintptr_t>>(0);
  pid_t process = ::getpid();        // in a forked child no call does anything
  std::deque<AwaitedStep> waiting;   // used while holding the interpreter's lock
  bool asking = false;               // a thread is asking for these
  std::unique_ptr<Monitor> monitor;  // last, because its thread uses the others
};

// Reads the keywords, then the config: a path of a YAML file, a dict, or an object with attributes
// (argparse, dataclasses, OmegaConf). Errors in either are among the problems.
ConfigReading read_settings(const nanobind::dict& keywords, const nanobind::handle& config);
nanobind::dict dict_of(const ConfigReading& settings);

StepShape shape_of(const std::vector<std::uint64_t>& sums);  // five numbers

// A callable with log_step's arguments, bound to the monitor that `core` holds. Plain numbers go
// straight to the queue. `owner` is a weak reference to the mfu.Monitor. Its _made_plain() gets the
// arguments if one of them is anything else, _arrived() tells what a device has given, and
// _notice() is called if the flag is set. These catch our own errors; what they raise belongs to
// the program and is passed on. `shape` is used if none is given.
nanobind::object log_step_function(LoopMonitor& monitor, nanobind::object core,
                                   nanobind::object owner, const std::vector<std::uint64_t>& shape);
// The same for count_tokens(tokens), and _count_slowly().
nanobind::object count_tokens_function(LoopMonitor& monitor, nanobind::object core,
                                       nanobind::object owner);
// Does what every log_step does first. Returns how many steps still wait.
std::size_t take_arrived(LoopMonitor& monitor, nanobind::object owner);
// log_step's arguments in order, each with its kind.
std::vector<std::pair<std::string, std::string>> step_arguments();

}  // namespace mfu::python
