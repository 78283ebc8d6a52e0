// What a run leaves behind: a run directory with one append-only file per process, and what those
// processes still hold in memory. It can be read during the run, after a `kill -9`, or on another
// machine. A damaged file loses only the damaged part, and a note says so (docs/formats/run.md).
//
//   mfu::RunRecord run = MFU_TRY(mfu::read_run("mfu-runs/gpt2"));
//   for (const mfu::ProcessRecord& each : run.processes) std::printf("%zu\n", each.steps.size());
//
// Observed processes write to memory (mfu/observer.h); `mfu run` copies that to the directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/result.h"
#include "mfu/units.h"

namespace mfu {

struct CountedFlop {
  FlopCount model_flop;       // what the model needs, without recomputation
  FlopCount hardware_flop;    // what was executed
  FlopCount recomputed_flop;  // what activation checkpointing computed again
};

struct TypedFlop {
  std::string type;  // "bf16", as the observer names data types
  CountedFlop flop;
};

// Parts of a step's time; they may overlap.
enum class StepPhase { data_wait, optimizer, communication, checkpoint, validation };
inline constexpr std::size_t kStepPhases = 5;

// What a pass was for (docs/formats/run.md).
enum class RunPhase { train, validation, prefill, decode, forward, other };
inline constexpr std::size_t kRunPhases = 6;

// What the main thread was doing.
enum class HostPart { compute, loader, device_wait, io, sleep, preempted };
inline constexpr std::size_t kHostParts = 6;

// The sums over one step of all passes with the same phase and model.
struct StepPhaseTotal {
  RunPhase phase = RunPhase::other;
  std::uint32_t model = 0;  // number of the model within its process
  std::uint64_t passes = 0, tokens = 0, padded_tokens = 0;
  FlopCount hardware_flop, model_flop;
  std::chrono::nanoseconds time{};
  std::uint64_t moved_bytes = 0;  // weights and caches; 0 if not known
};

// At most ten seconds of a process that takes no steps. Counts are since the process began:
// subtract the window before to get those of this one.
struct WindowRecord {
  std::chrono::nanoseconds start{}, end{};  // on the process's own clock
  std::chrono::nanoseconds idle{};          // time in which no pass ran
  std::vector<StepPhaseTotal> passes;
};

// One step of one process. Its counts are those of this step alone.
struct Step {
  enum class Kind { training, validation, marked };
  Kind kind = Kind::training;
  std::uint64_t sequence = 0;  // from 0 in each process; dropped steps leave a gap
  std::uint64_t index = 0;     // the program's own number for the step, if it has one
  // On the process's own clock. Add ProcessRecord::realtime_offset to get the time of day.
  std::chrono::nanoseconds start{}, end{};
  std::uint64_t tokens = 0, samples = 0;
  std::chrono::nanoseconds phase[kStepPhases] = {};
  std::vector<TypedFlop> flop;
  std::vector<StepPhaseTotal> passes;                   // empty if an older observer wrote it
  std::chrono::nanoseconds host_time[kHostParts] = {};  // the rest of the step is not known
  bool profiled = false;   // a profiler ran or slowed the step, so no rate is made from it
  bool explained = false;  // the step was profiled in order to be explained
  // Time on an asynchronous device since the end of the step before. None if the device was not
  // asked, or had not finished.
  std::optional<std::chrono::nanoseconds> device_time{};

  std::chrono::nanoseconds duration() const { return device_time.value_or(end - start); }
};

// All calls of one operator with one data type.
struct OperatorTotal {
  std::string name;    // "aten::addmm"
  std::string type;    // "bf16"
  std::string reason;  // why its FLOPs are not counted; empty if they are
  std::uint64_t calls = 0;
  CountedFlop flop;
  std::uint64_t bytes = 0;
};

// How often a value was seen. Values above 31 are rounded to 2%.
struct Occurrence {
  std::uint64_t value = 0, count = 0;
};

// All passes of one phase and model of a process.
struct PhaseTotal {
  struct Line {
    std::string device;    // "cuda:0"
    std::string identity;  // uuid of the device; empty if not known
    std::string type;
    std::uint64_t calls = 0;
    CountedFlop flop;
    std::uint64_t bytes = 0;
  };
  RunPhase phase = RunPhase::other;
  std::uint32_t model = 0;
  std::string model_name;  // name of its class; empty if not known
  bool mixed = false;      // its passes both decode and prefill; all their time counts as decode
  std::uint64_t passes = 0, tokens = 0, padded_tokens = 0, samples = 0;
  std::chrono::nanoseconds time{};
  std::uint64_t weight_read_bytes = 0, cache_read_bytes = 0, cache_written_bytes = 0;
  std::uint64_t largest_batch = 0;
  std::vector<Occurrence> durations_ns, batches;  // sorted by value
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
  std::chrono::nanoseconds started{}, last{};  // on its clock: torch was loaded, last sign of life
  std::chrono::nanoseconds realtime_offset{};  // plus its clock gives nanoseconds since 1970
  std::vector<Step> steps;                     // sorted by sequence
  std::vector<OperatorTotal> totals;
  std::uint64_t tokens = 0, samples = 0;
  std::uint64_t token_rows = 0;  // rows of the table of tokens (the vocabulary); 0 if none
  std::chrono::nanoseconds phase[kStepPhases] = {};
  // Their `lines` add up to `totals`, except for passes that were running at the time of reading.
  std::vector<PhaseTotal> phases;   // empty if an older observer wrote it
  std::chrono::nanoseconds idle{};  // gaps of more than 100 ms without a pass; part of no phase
  std::vector<WindowRecord> windows;
  std::chrono::nanoseconds host_time[kHostParts] = {};
  std::uint64_t collectives = 0, collective_bytes = 0;  // as the host saw them
  std::string run;                                      // name of the run; may be empty
  std::uint32_t attempt = 0;                            // attempt of the run, from 0
  std::vector<Fact> facts;
  std::uint64_t steps_dropped = 0;  // steps that are in `totals` but not in `steps`
  bool ended = false;               // it ended normally; false if it still runs or was killed
  bool own = false;                 // started by this launcher; only `mfu run` itself knows

  // The last value of that key. Null if there is none.
  const std::string* fact(std::string_view key) const;
};

// One launcher of a run: `mfu run` on a node, or as one task of srun or mpirun.
struct Launcher {
  std::string host;
  std::uint64_t pid = 0;
  std::uint32_t attempt = 0;                 // of the run, from 0
  std::optional<std::uint32_t> task, tasks;  // its number in its job, and how many there are
  std::optional<std::chrono::nanoseconds> started, ended;
  std::optional<int> exit_status, signal;
  std::string file, region_folder, spare_folder;  // name of its file; where its processes write
  bool over = false;                              // it ended, or was killed on this machine
  bool superseded = false;                        // a later attempt took its place
};

// What the launcher wrote when the run began and ended.
struct RunFacts {
  std::vector<std::string> command;
  std::string host;
  std::optional<std::chrono::nanoseconds> started, ended;  // since 1970
  std::optional<int> exit_status;                          // 128 + n if signal n ended it
  std::optional<int> signal;                               // the signal that ended the command
};

struct RunRecord {
  RunFacts run;                          // start of the first launcher, end of the last
  std::vector<Launcher> launchers;       // by attempt, task and host
  std::vector<ProcessRecord> processes;  // by rank; those without a rank come last
  std::vector<std::string> unobserved;   // why processes that loaded torch count nothing
  bool partial = false;                  // something was damaged or dropped; `notes` say what
  std::vector<std::string> notes;
};

// Reads a whole run. Fails with `not_found` if there is no such directory and with `malformed` if
// it holds no run. If a file is damaged, the rest is read, `partial` is set and a note says where.
Result<RunRecord> read_run(const std::string& directory);

// The same, but steps are read a few at a time. It needs memory for one process's file only.
using TakeRunStep = std::function<Result<void>(std::size_t process, const Step& step)>;
struct RunSteps {
  RunRecord record;                                      // without steps
  std::function<Result<void>(const TakeRunStep&)> read;  // hands over every step, in order
};
Result<RunSteps> open_run(const std::string& directory);

// The launchers of a run, as their files say now.
std::vector<Launcher> launchers_of(const std::string& directory);

// Profiled steps: where their trace is, and what the observer counted in the very same steps
// (docs/formats/window.md).
struct ProfiledWindow {
  std::string trace;  // path of the trace, in the run directory
  std::optional<std::int64_t> rank;
  std::uint64_t pid = 0, number = 1;  // `number`: which of its windows, from 1
  std::uint64_t wanted_steps = 0, steps = 0, first_step = 0;
  bool on_device = false;  // it computed on another device than the processor
  std::uint64_t cores_available = 0, threads = 0;
  std::chrono::nanoseconds wall{}, cpu{};         // the process, all its threads
  std::chrono::nanoseconds waited{}, loop_cpu{};  // of the loop's thread: without a core, with one
  std::chrono::nanoseconds loading{},
      loading_cpu{};           // the loop in its loader, and its CPU time there
  std::uint64_t children = 0;  // processes it had started: loader workers
  // their time with a core or waiting for one: the sum, and that of the busiest
  std::chrono::nanoseconds children_ready{}, busiest_child{};
  std::vector<OperatorTotal> operators;  // those with a `reason` were not counted
  std::string problem;                   // why there is no trace; empty: there is one

  CountedFlop flop() const;
};

// By rank, then by number. A file that is not whole is passed over.
std::vector<ProfiledWindow> read_windows(const std::string& directory);

// Where a run is kept: its directory, and the folder in memory that its processes write to.
struct RunPlaces {
  std::string directory;           // MFU_RUN_DIR
  std::string region_folder;       // MFU_REGION_DIR
  std::string file;                // this launcher's run.json
  std::vector<std::string> notes;  // which place had to be replaced by another one
  std::string spare_folder{};      // MFU_REGION_SPARE: if a process cannot use region_folder
  std::string run{};               // MFU_RUN_ID
  std::uint32_t attempt = 0;       // MFU_ATTEMPT: how often the run was started again
  std::uint64_t start_ticks = 0;   // when this launcher began; the pid alone may be given out again
  // Region folders of launchers that were killed on this machine. Their counts are copied too.
  std::vector<std::string> leftovers{};
};

// Makes the folders and writes run.json. If `directory` is empty, it is ./mfu-runs/, a folder named
// after the command and the time. All tasks of one job (srun, mpirun) share one run. A directory in
// use is joined; a killed or failed run goes on as its next attempt; a finished one is moved aside.
// If a place cannot be written, one under $TMPDIR is used; fails with `io` if none is left.
Result<RunPlaces> create_run(const std::string& directory, const std::vector<std::string>& command);

}  // namespace mfu
