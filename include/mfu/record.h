// What a run left behind: the run directory, one append-only file a process, and what its processes
// still hold in memory. A reader may come late, while the run goes on, after a `kill -9`, or on
// another machine; damage costs what was damaged and is said. docs/formats/run.md has the format.
//
//   mfu::RunRecord run = MFU_TRY(mfu::read_run("mfu-runs/gpt2"));
//   for (const mfu::ProcessRecord& each : run.processes) std::printf("%zu\n", each.steps.size());
//
// What writes is in every observed process (mfu/observer.h); a Drainer carries it to the directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/launcher.h"
#include "mfu/result.h"
#include "mfu/units.h"

namespace mfu {

// FLOP by the kind of need.
struct CountedFlop {
  FlopCount model_flop;       // recomputation left out
  FlopCount hardware_flop;    // what was executed
  FlopCount recomputed_flop;  // what activation checkpointing ran again
};

struct TypedFlop {
  std::string type;  // "bf16", as the observer names data types
  CountedFlop flop;
};

enum class StepPhase { data_wait, optimizer, communication, checkpoint, validation };
inline constexpr std::size_t kStepPhases = 5;

// What a pass was for (docs/formats/run.md).
enum class RunPhase { train, validation, prefill, decode, forward, other };
inline constexpr std::size_t kRunPhases = 6;

// What the main thread did.
enum class HostPart { compute, loader, device_wait, io, sleep, preempted };
inline constexpr std::size_t kHostParts = 6;

// What one phase and model came to within a step.
struct StepPhaseTotal {
  RunPhase phase = RunPhase::other;
  std::uint32_t model = 0;  // which of the process's models
  std::uint64_t passes = 0, tokens = 0, padded_tokens = 0;
  FlopCount hardware_flop, model_flop;
  std::chrono::nanoseconds time{};
  std::uint64_t moved_bytes = 0;  // of weights and caches; 0: not known
};

// Ten seconds or less of a process that takes no steps. Counts are since the process began: the
// window's own are the difference to the one before.
struct WindowRecord {
  std::chrono::nanoseconds start{}, end{};  // on the process's own clock
  std::chrono::nanoseconds idle{};          // no pass ran
  std::vector<StepPhaseTotal> passes;
};

// One step of one process; counts are of this step alone.
struct Step {
  enum class Kind { training, validation, marked };
  Kind kind = Kind::training;
  std::uint64_t sequence = 0;  // of the process, from 0; dropped steps leave a gap
  std::uint64_t index = 0;     // the program's own number where it has one
  // On the process's own clock; ProcessRecord::realtime_offset makes it the machine's time of day.
  std::chrono::nanoseconds start{}, end{};
  std::uint64_t tokens = 0, samples = 0;
  std::chrono::nanoseconds phase[kStepPhases] = {};
  std::vector<TypedFlop> flop;
  std::vector<StepPhaseTotal> passes;                   // empty: an older observer's
  std::chrono::nanoseconds host_time[kHostParts] = {};  // what they do not add up to is not known
  bool profiled = false;   // a profiler ran, or held it up: no rate is made of it
  bool explained = false;  // it is one of those that were explained
  // On an asynchronous device, from the end of the step before; none: nobody asked the device, or
  // it had not come to an end.
  std::optional<std::chrono::nanoseconds> device_time{};

  std::chrono::nanoseconds duration() const { return device_time.value_or(end - start); }
};

// All calls of one operator with one data type.
struct OperatorTotal {
  std::string name;    // "aten::addmm"
  std::string type;    // "bf16"
  std::string reason;  // why its FLOPs are not counted; empty: they are
  std::uint64_t calls = 0;
  CountedFlop flop;
  std::uint64_t bytes = 0;
};

// How often a value was seen; values above 31 are rounded to 2%.
struct Occurrence {
  std::uint64_t value = 0, count = 0;
};

// All passes of one phase and model of a process.
struct PhaseTotal {
  struct Line {
    std::string device;    // "cuda:0"
    std::string identity;  // of the device, its uuid; empty: not known
    std::string type;
    std::uint64_t calls = 0;
    CountedFlop flop;
    std::uint64_t bytes = 0;
  };
  RunPhase phase = RunPhase::other;
  std::uint32_t model = 0;
  std::string model_name;  // of its class; empty: not known
  bool mixed = false;      // parts of passes that decode and prefill; their time is decode's
  std::uint64_t passes = 0, tokens = 0, padded_tokens = 0, samples = 0;
  std::chrono::nanoseconds time{};
  std::uint64_t weight_read_bytes = 0, cache_read_bytes = 0, cache_written_bytes = 0;
  std::uint64_t largest_batch = 0;
  std::vector<Occurrence> durations_ns, batches;  // by value
  std::vector<Line> lines;
};

struct Fact {
  std::string key, value;  // "device" "cuda:0 NVIDIA H100 80GB HBM3"
};

struct ProcessRecord {
  std::string host;
  std::uint32_t pid = 0, parent_pid = 0;
  std::optional<std::uint32_t> rank, world_size, local_rank;
  std::vector<std::uint32_t> affinity;         // CPUs it could use when it started
  std::chrono::nanoseconds started{}, last{};  // its clock: torch was loaded; the last sign of life
  std::chrono::nanoseconds realtime_offset{};  // added to its clock: nanoseconds since 1970
  std::vector<Step> steps;                     // by sequence
  std::vector<OperatorTotal> totals;
  std::uint64_t tokens = 0, samples = 0;
  std::uint64_t token_rows = 0;  // of the table the tokens were looked up in; 0: none
  std::chrono::nanoseconds phase[kStepPhases] = {};
  // Sums of `lines` are those of `totals`, but for what was under way when it was read.
  std::vector<PhaseTotal> phases;   // empty: an older observer's
  std::chrono::nanoseconds idle{};  // no pass ran for more than 100 ms; in none of the phases
  std::vector<WindowRecord> windows;
  std::chrono::nanoseconds host_time[kHostParts] = {};
  std::uint64_t collectives = 0, collective_bytes = 0;  // as the host saw them
  std::string run;                                      // names the run, where somebody did
  std::uint32_t attempt = 0;                            // of the run, from 0
  std::vector<Fact> facts;
  std::uint64_t steps_dropped = 0;  // counted in `totals`, without a record
  bool ended = false;               // it said goodbye; false: running, or killed
  bool own = false;                 // a Drainer's record: of this launcher, not of another

  // The last value of that key; null where there is none.
  const std::string* fact(std::string_view key) const;
};

// How a command ended.
struct RunEnd {
  int status = 0;             // 128 + n for signal n
  std::optional<int> signal;  // that ended it
};

// What the launcher wrote when the run began and ended.
struct RunFacts {
  std::vector<std::string> command;
  std::string host;
  std::optional<std::chrono::nanoseconds> started, ended;  // since 1970
  std::optional<int> exit_status;                          // 128 + n for signal n
  std::optional<int> signal;                               // that ended the command
};

struct RunRecord {
  RunFacts run;                          // the first launcher's start, the last one's end
  std::vector<Launcher> launchers;       // by attempt, task and host
  std::vector<ProcessRecord> processes;  // by rank, those without one last
  std::vector<std::string> unobserved;   // processes that loaded torch and count nothing: why
  bool partial = false;                  // something was damaged or dropped; `notes` say what
  std::vector<std::string> notes;
};

// `not_found` where there is no such directory, `malformed` where it holds no run. A damaged file
// costs what was damaged: the rest is there, `partial` is set and a note names file and byte.
Result<RunRecord> read_run(const std::string& directory);

// The same, its steps read a few at a time: memory is that of one process's file.
using TakeRunStep = std::function<Result<void>(std::size_t process, const Step& step)>;
struct RunSteps {
  RunRecord record;                                      // without steps
  std::function<Result<void>(const TakeRunStep&)> read;  // by process of `record`, in order
};
Result<RunSteps> open_run(const std::string& directory);

// Where a run lives: its directory, and the memory-backed folder its processes write to.
struct RunPlaces {
  std::string directory;           // MFU_RUN_DIR
  std::string region_folder;       // MFU_REGION_DIR
  std::string file;                // this launcher's run.json
  std::vector<std::string> notes;  // where another place than the one asked for had to do
  // For a process whose region cannot be made there (MFU_REGION_SPARE).
  std::string spare_folder{};
  std::string run{};          // MFU_RUN_ID
  std::uint32_t attempt = 0;  // MFU_ATTEMPT: 0, or how often the run was started again
  // Region folders of launchers that were killed here: what they left is carried too.
  std::vector<std::string> leftovers{};
};

// Makes both and writes run.json. `directory` empty: ./mfu-runs/NAME, by the command and the time.
// Tasks of one job (srun, mpirun) have one run. A directory that another launcher uses is joined; a
// run that was killed or failed goes on as its next attempt; a finished one moves to a folder of
// its own. What cannot be written is replaced by a place under $TMPDIR; `io` where none is left.
Result<RunPlaces> create_run(const std::string& directory, const std::vector<std::string>& command);

// Carries what the processes of this machine count from memory to the run directory, in a process
// of its own (`mfu run`). Where the disk is slow, full or gone it holds the newest in memory.
class Drainer {
 public:
  explicit Drainer(RunPlaces places);
  ~Drainer();
  Drainer(const Drainer&) = delete;
  Drainer& operator=(const Drainer&) = delete;

  // Takes what is new. True: some observed process is alive.
  bool drain();
  // The last drain, with totals; regions of dead processes are removed once they are on the disk.
  void finish();
  // Everything so far, of all machines, also what the disk refused.
  RunRecord record() const;
  // The last steps (at most 64 a process) of this machine's processes, for a live view.
  RunRecord recent() const;
  // What could not be written, and why; empty: all is well.
  std::vector<std::string> problems() const;
  // Asks every process that steps, of the first eight ranks, to profile so many steps, all
  // beginning at the same one. Who was asked, by process.
  std::vector<std::uint32_t> ask_profile(std::uint64_t steps);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Writes the end of the run into run.json; without a status where nobody waited for one.
Result<void> close_run(const RunPlaces& places, const RunEnd& end);
Result<void> close_run(const RunPlaces& places);

// Adds what others have and `mine` has not.
void join_records(RunRecord& mine, RunRecord others);

}  // namespace mfu
