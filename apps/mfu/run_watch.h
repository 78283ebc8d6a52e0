// Beside a running command: carries counts to the run directory and shows a line on a terminal.
#pragma once

#include <mfu/record.h>
#include <mfu/run.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace mfu::app {

class RunMetrics;

class RunWatch {
 public:
  // Begins at once, in a thread of its own.
  // `metrics`, where there is one, is told once a second.
  RunWatch(const RunPlaces& places, const RunQuestion& question, const std::string& device,
           const Catalog& catalog, std::shared_ptr<RunMetrics> metrics);
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  // Called ten times a second, on the watching thread, with what is known by then.
  void each_round(std::function<void(Drainer&)> look);

  // Gives the terminal back; the line comes again by itself.
  void pause();

  // Carries the rest and hands over what the run left. None: the disk gave no answer for ten
  // seconds, and the thread still waits for it.
  std::optional<RunRecord> stop();

 private:
  struct State;
  std::shared_ptr<State> state_;  // with the thread, which may outlive us where a disk hangs
};

// Until no observed process of these places is alive.
RunRecord drain_to_the_end(const RunPlaces& places);

}  // namespace mfu::app
