// Watches a running command: stores its counts in the run directory and shows a line on a terminal.
#pragma once

#include <mfu/run.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "record/drain.h"

namespace mfu::app {

class RunMetrics;

class RunWatch {
 public:
  // Begins at once, on its own thread. `metrics` may be null; else it is updated once a second.
  RunWatch(const RunPlaces& places, const RunQuestion& question, const std::string& device,
           const Catalog& catalog, std::shared_ptr<RunMetrics> metrics);
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  // `look` is called ten times a second, on the watching thread.
  void each_round(std::function<void(Drainer&)> look);

  // Tells of SIGTSTP (the line is cleared), SIGCONT (it comes back with the next update) and
  // SIGWINCH (it moves to the new last row).
  void terminal_signal(int number);

  // Stores the rest and returns everything that was counted. None if the disk did not answer for
  // ten seconds; the thread still waits for it then.
  std::optional<RunRecord> stop();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which outlives us if a disk hangs
};

// Stores counts until no observed process of these places is alive, and returns all of them.
RunRecord drain_to_the_end(const RunPlaces& places);

}  // namespace mfu::app
