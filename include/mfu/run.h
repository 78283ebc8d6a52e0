// What a run came to: MFU with its peak and source, where the step time went, which rank is slow,
// and what to change first. Made from a RunRecord and a device; formatted by mfu/sink.h.
//
//   mfu::RunRecord record = MFU_TRY(mfu::read_run("mfu-runs/gpt2"));
//   mfu::RunDevice device = MFU_TRY(mfu::device_of_run(record, mfu::Catalog::builtin(), ""));
//   mfu::RunReport report = mfu::report_run(record, {.device = device});
//   if (report.mfu) std::printf("MFU %g\n", report.mfu->value);  // none: `notes` say why
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mfu/attribution.h"
#include "mfu/hardware.h"
#include "mfu/machine.h"
#include "mfu/model.h"
#include "mfu/record.h"
#include "mfu/utilization.h"

namespace mfu {

// One device that operators ran on.
struct UsedDevice {
  std::string key;               // the same for processes on the same device
  std::string name;              // as its driver has it
  std::optional<Device> device;  // none: not known
  bool counts = true;            // in the run's MFU: an accelerator, or a CPU that was used alone
};

// The device the peak is of. One CPU is one device, however many ranks share it.
struct RunDevice {
  std::string name;
  std::optional<Device> device;  // none: no MFU; `notes` say why
  std::optional<Ceiling> ceiling;
  std::uint64_t devices = 1;  // that the run used
  std::vector<std::string> notes;
  std::vector<UsedDevice>
      used{};  // each held against its own peak; those that are not here: `device`
};

// By the name given, else what the processes said they ran on: a catalogue entry, or this machine's
// processor with the peak of all cores its processes may use. `not_found` and `invalid_argument` as
// find_device() for a given name.
Result<RunDevice> device_of_run(const RunRecord& record, const Catalog& catalog,
                                const std::string& name);

struct RunQuestion {
  RunDevice device;
  std::optional<FlopRate> peak{};         // of one device; wins over the device's
  std::optional<Precision> precision{};   // hold all FLOPs against this type's peak
  std::optional<std::uint64_t> warmup{};  // steps of each rank left out; none: found out
  std::optional<ModelSpec> model{};       // to replace plain-matmul attention by the exact area
};

struct StepTimes {
  std::chrono::nanoseconds median{}, p10{}, p90{}, p99{};
};

// A type the matmuls ran in, and the peak that stands against it.
struct RunType {
  std::string type;
  CountedFlop flop;
  ChosenPeak peak;
};

struct RunRankReport {
  std::optional<std::uint32_t> rank;
  std::string host, device;
  std::uint32_t pid = 0;
  std::uint64_t steps = 0, steps_dropped = 0;
  std::uint64_t restarts = 0;  // its processes less one; `pid` is the last one's
  std::optional<StepTimes> step;
  std::optional<std::chrono::nanoseconds> own;  // median of step less communication
  CountedFlop flop;
  std::optional<std::uint64_t> tokens, samples;  // none where the run has none
  std::optional<Fraction> phase[kStepPhases];    // of its step time
};

// One device that operators ran on, all processes together.
struct RunDeviceReport {
  std::string device;  // its name
  std::optional<std::uint64_t>
      index;                     // of the place it had in a process ("cuda:1"); a CPU has none
  std::string identity;          // its uuid; empty: not known
  std::optional<FlopRate> peak;  // of the type most of its FLOPs are in
  CountedFlop flop;
  std::optional<Fraction> mfu;  // of the steps after warm-up
};

// All passes of one phase and model, over all ranks.
struct RunPhaseReport {
  RunPhase phase = RunPhase::other;
  std::string model;  // of its class; empty: not known
  std::uint64_t passes = 0;
  std::optional<std::uint64_t> tokens;
  FlopCount model_flop, hardware_flop;
  std::chrono::nanoseconds time{};
  std::optional<Fraction> mfu, mbu;
  std::optional<double> tokens_per_s;
  std::uint64_t mixed_passes = 0;  // that decode and prefill at once: their time is divided
  std::uint64_t weight_read_bytes = 0, cache_read_bytes = 0, cache_written_bytes = 0;
  std::optional<std::uint64_t> median_ns, p99_ns;            // of a pass
  std::optional<std::uint64_t> median_batch, largest_batch;  // sequences of a pass
  // After warm-up, outside profiled steps; `mfu` and `mbu` are of these.
  std::chrono::nanoseconds kept_time{};
  FlopCount kept_model_flop;
  std::uint64_t kept_moved_bytes = 0;
};

// What the time of passes went to: generation is prefill and decode of all models.
struct RunShare {
  enum class Part { generation, training, validation, forward, other };
  Part part = Part::other;
  std::chrono::nanoseconds time{};
  Fraction of_time;
  std::optional<Fraction> mfu, mbu;
};

// Ten seconds of a program without steps.
struct RunWindow {
  std::chrono::nanoseconds start{}, duration{};  // since the first process began
  std::chrono::nanoseconds idle{};
  std::vector<RunPhaseReport> phases;
};

// Positions that entered a first block, by what became of them. The kinds are disjoint.
struct RunTokens {
  std::uint64_t training = 0, evaluation = 0, prompt = 0, generated = 0;
  std::optional<std::uint64_t> padded;  // none: no mask and no label was seen that leaves any out
};

// A library that computes past torch's dispatcher, as some process of the run imported it.
struct RunLibrary {
  std::string name, version;
  bool counted = false;
  std::string why;  // it is not counted
};

// How the command ended; nothing is known while it runs.
struct RunEnding {
  // lost: a rank was killed, the command ended by itself; stopped: after the steps asked for
  enum class How { exit, signal, lost, stopped };
  How how = How::exit;
  std::optional<int> status, signal;
  std::optional<std::uint32_t> rank;  // that was killed
};

// What the explained steps came to, and where it lies.
struct RunExplanation {
  struct Line {
    LedgerLine line = LedgerLine::idle_unknown;
    std::int64_t duration_ns = 0;
    double fraction = 0;
  };
  std::vector<std::string> traces;  // paths
  std::string report;               // of the page; empty: none
  std::optional<double> mfu;        // of the explained steps, the profiler's time in
  std::vector<Line> ledger;
  std::vector<Finding> findings;
};

struct RunReport {
  RunFacts run;
  std::optional<RunEnding> ended;
  std::optional<std::uint64_t> stopped_after_steps;  // because that many were asked for
  std::uint64_t ranks = 0, steps = 0, warmup = 0;
  std::optional<std::uint64_t> ranks_expected;  // the world size, where the program had one
  std::uint64_t restarts = 0;                   // workers that were started again
  std::uint32_t attempt = 0;                    // the last one, from 0
  std::uint64_t launchers = 1, hosts = 1;       // that the run had, of all attempts
  std::optional<std::chrono::nanoseconds> wall;
  std::optional<StepTimes> step;
  std::optional<CountedFlop> flop;                   // of the whole run; none: nothing could count
  std::map<std::string, OperatorTotal> by_operator;  // counted ones, all types together
  std::vector<RunType> by_type;                      // most model FLOP first
  std::vector<OperatorTotal> uncounted;              // by name
  std::uint64_t counted_calls = 0;
  std::vector<RunLibrary> libraries;  // by name
  // Whether the FLOPs are all there are. False: something is known to be missing; none: nobody can
  // say. MFU is a lower bound unless it is true.
  std::optional<bool> complete;
  std::optional<std::uint64_t> tokens, samples;
  std::optional<double> tokens_per_s;
  std::vector<RunPhaseReport> phases;            // in RunPhase's order; empty: not known
  std::optional<RunTokens> tokens_by_kind;       // none: no tokens were seen
  std::vector<RunShare> shares;                  // longest first; empty: nothing but training
  std::vector<RunWindow> windows;                // of a program without steps
  std::optional<std::chrono::nanoseconds> idle;  // no pass ran for more than 100 ms
  std::optional<Fraction> host[kHostParts];      // of the main threads' step time
  std::optional<Fraction> host_idle;             // what none of them is
  std::optional<Fraction> mfu, hfu, mfu_wall;
  std::optional<FlopRate> reached;  // model FLOP of steps over their time
  std::optional<FlopRate> peak, ceiling;
  std::optional<ByteRate> bandwidth;   // of one device's memory
  std::optional<Fraction> of_ceiling;  // `reached` of all devices' ceilings
  std::string peak_source, ceiling_source, device, dtype;
  std::uint64_t devices = 1;
  std::optional<Fraction> phase[kStepPhases];  // of step time, over all ranks
  std::vector<RunDeviceReport> by_device;
  bool asynchronous = false;  // accelerators ran behind the host
  bool device_timed = false;  // and were asked: steps and parts of them are by the device's clock
  std::vector<RunRankReport> by_rank;
  std::optional<std::uint32_t> slowest_rank;  // where one stands out
  std::vector<Finding> findings;              // best first
  std::chrono::nanoseconds step_time{};       // of all ranks' kept steps
  std::vector<std::uint64_t> profiled_steps;  // explained ones, of the rank that has most
  std::optional<RunExplanation> explain;      // none: no step was explained
  bool partial = false;
  std::vector<Note> contradictions, notes;
};

RunReport report_run(const RunRecord& record, const RunQuestion& question);

}  // namespace mfu
