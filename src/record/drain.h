// How a run directory is written while the run goes on. Only `mfu run` does that (apps/mfu/).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mfu/record.h"

namespace mfu {

// How a command ended.
struct RunEnd {
  int status = 0;               // exit status; 128 + n if signal n ended it
  std::optional<int> signal{};  // the signal that ended it
};

// Copies what the processes of this machine count from memory to the run directory. It runs in a
// separate process (`mfu run`). If the disk is slow, full or gone, it keeps the newest in memory.
class Drainer {
 public:
  explicit Drainer(RunPlaces places);
  ~Drainer();
  Drainer(const Drainer&) = delete;
  Drainer& operator=(const Drainer&) = delete;

  // Copies what is new. Returns whether some observed process is alive.
  bool drain();
  // Copies the rest, with totals. Removes the regions of dead processes once they are on the disk.
  void finish();
  // Everything so far, of all machines, including what could not be written to the disk.
  RunRecord record() const;
  // The last steps (at most 64 per process) of this machine's processes, for a live view.
  RunRecord recent() const;
  // What could not be written, and why. Empty if everything was.
  std::vector<std::string> problems() const;
  // Asks the processes of the first eight ranks that take steps to profile that many steps, all
  // beginning with the same step. Returns the pids of the processes that were asked.
  std::vector<std::uint32_t> ask_profile(std::uint64_t steps);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Writes the end of the run into run.json; without RunEnd, no exit status is known.
Result<void> close_run(const RunPlaces& places, const RunEnd& end);
Result<void> close_run(const RunPlaces& places);

// Adds to `mine` what only `others` has.
void join_records(RunRecord& mine, RunRecord others);

}  // namespace mfu
