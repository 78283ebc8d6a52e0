// The report of a run: MFU with its peak and source, where the step time went, which rank is slow,
// and what to change first. It is made from a RunRecord and a device; mfu/sink.h formats it.
//
//   mfu::RunRecord record = MFU_TRY(mfu::read_run("mfu-runs/gpt2"));
//   mfu::RunDevice device = MFU_TRY(mfu::device_of_run(record, mfu::Catalog::builtin(), ""));
//   mfu::RunReport report = mfu::report_run(record, {.device = device});
//   if (report.mfu) std::printf("MFU %g\n", report.mfu->value);  // else `notes` say why
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
  std::string key;               // the same for all processes that use this device
  std::string name;              // as its driver prints it
  std::optional<Device> device;  // none if not known
  bool counts = true;            // towards the run's MFU; false for a CPU beside accelerators
};

// The device whose peak is used. One CPU is one device, however many ranks share it.
struct RunDevice {
  std::string name;
  std::optional<Device> device;  // if none, there is no MFU; `notes` say why
  std::optional<Ceiling> ceiling;
  std::uint64_t devices = 1;  // how many the run used
  std::vector<Note> notes;
  std::vector<UsedDevice> used{};  // a device that is not listed has the peak of `device`
};

// The device of that name; without a name, the one that the processes said they ran on. That is an
// entry of the catalogue, or this machine's processor with the peak of all cores that the processes
// may use. Fails only for a given name, as find_device() does.
Result<RunDevice> device_of_run(const RunRecord& record, const Catalog& catalog,
                                const std::string& name);

struct RunQuestion {
  RunDevice device;
  std::optional<FlopRate> peak{};         // of one device; wins over that of `device`
  std::optional<Precision> precision{};   // compare all FLOPs with the peak of this type
  std::optional<std::uint64_t> warmup{};  // steps to ignore per rank; none: detect from step times
  std::optional<ModelSpec> model{};  // gives the exact area of attention that runs as plain matmuls
};

struct StepTimes {
  std::chrono::nanoseconds median{}, p10{}, p90{}, p99{};
};

// A data type in which matmuls ran, and the peak it is compared with.
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
  std::uint64_t restarts = 0;  // number of its processes minus one; `pid` is that of the last
  std::optional<StepTimes> step;
  // Median of what a step takes without communication. If all ranks are on one host, also without
  // the time in which other processes had the cores.
  std::optional<std::chrono::nanoseconds> own;
  CountedFlop flop;
  std::optional<std::uint64_t> tokens, samples;  // none if the run has none
  std::optional<Fraction> phase[kStepPhases];    // shares of its step time
};

// One device that operators ran on, all processes together.
struct RunDeviceReport {
  std::string device;                  // its name
  std::optional<std::uint64_t> index;  // number within its process: 1 for "cuda:1"; none for a CPU
  std::string identity;                // its uuid; empty if not known
  std::optional<FlopRate> peak;        // for the type of most of its FLOPs
  CountedFlop flop;
  std::optional<Fraction> mfu;  // of the steps after warm-up
};

// All passes of one phase and model, over all ranks.
struct RunPhaseReport {
  RunPhase phase = RunPhase::other;
  std::string model;  // name of its class; empty if not known
  std::uint64_t passes = 0;
  std::optional<std::uint64_t> tokens;
  FlopCount model_flop, hardware_flop;
  std::chrono::nanoseconds time{};
  std::optional<Fraction> mfu, mbu;
  std::optional<double> tokens_per_s;
  std::uint64_t mixed_passes = 0;  // that both decode and prefill; their time is divided
  std::uint64_t weight_read_bytes = 0, cache_read_bytes = 0, cache_written_bytes = 0;
  std::optional<std::uint64_t> median_ns, p99_ns;            // time of a pass
  std::optional<std::uint64_t> median_batch, largest_batch;  // sequences in a pass
  // Sums without warm-up and profiled steps. `mfu` and `mbu` are computed from these.
  std::chrono::nanoseconds kept_time{};
  FlopCount kept_model_flop;
  std::uint64_t kept_moved_bytes = 0;
};

// A share of the time of all passes. Generation is prefill and decode of all models together.
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

// The tokens that entered the model, by what they were for. No token is in two kinds.
struct RunTokens {
  std::uint64_t training = 0, evaluation = 0, prompt = 0, generated = 0;
  std::optional<std::uint64_t> padded;  // none if neither masks nor labels marked any padding
};

// A library that computes without torch's dispatcher, imported by some process of the run.
struct RunLibrary {
  std::string name, version;
  bool counted = false;
  std::string why;  // why it is not counted
};

// How the command ended.
struct RunEnding {
  // lost: a rank was killed, but the command itself exited. stopped: it had taken the steps of
  // --steps.
  enum class How { exit, signal, lost, stopped };
  How how = How::exit;
  std::optional<int> status, signal;
  std::optional<std::uint32_t> rank;  // the rank that was killed
};

// The result of explaining some steps, and its files.
struct RunExplanation {
  struct Line {
    LedgerLine line = LedgerLine::idle_unknown;
    std::int64_t duration_ns = 0;
    double fraction = 0;
  };
  std::vector<std::string> traces;  // paths
  std::string report;               // path of the page; empty if there is none
  std::optional<double> mfu;        // of the explained steps, slowed by the profiler
  std::vector<Line> ledger;
  std::vector<Finding> findings;
  // If ranks computed on processors: cores that were busy, cores that there are, and threads.
  double cores_used = 0;
  std::uint64_t cores_available = 0, threads = 0;
};

struct RunReport {
  RunFacts run;
  std::optional<RunEnding> ended;                    // none while the command runs
  std::optional<std::uint64_t> stopped_after_steps;  // if it was stopped by --steps
  std::uint64_t ranks = 0, steps = 0, warmup = 0;
  std::optional<std::uint64_t> ranks_expected;  // the world size, if the program has one
  std::uint64_t restarts = 0;                   // workers that were started again
  std::uint32_t attempt = 0;                    // number of the last attempt, from 0
  std::uint64_t launchers = 1, hosts = 1;       // over all attempts
  std::optional<std::chrono::nanoseconds> wall;
  std::optional<StepTimes> step;
  std::optional<CountedFlop> flop;  // of the whole run; none if no process could count
  std::map<std::string, OperatorTotal> by_operator;  // counted operators, all types together
  std::vector<RunType> by_type;                      // the one with most model FLOP first
  std::vector<OperatorTotal> uncounted;              // sorted by name
  std::uint64_t counted_calls = 0;
  std::vector<RunLibrary> libraries;  // sorted by name
  // Whether all FLOPs were counted. False if some are known to be missing, none if nobody can tell.
  // Unless it is true, MFU is a lower bound.
  std::optional<bool> complete;
  std::optional<std::uint64_t> tokens, samples;
  std::optional<double> tokens_per_s;
  std::vector<RunPhaseReport> phases;            // in the order of RunPhase; empty if not known
  std::optional<RunTokens> tokens_by_kind;       // none if no tokens were seen
  std::vector<RunShare> shares;                  // the longest first; empty if it only trained
  std::vector<RunWindow> windows;                // of a program without steps
  std::optional<std::chrono::nanoseconds> idle;  // gaps of more than 100 ms without a pass
  std::optional<Fraction> host[kHostParts];      // shares of the main threads' step time
  std::optional<Fraction> host_idle;             // the rest of that time
  // mfu_wall: over all the time that the run took.
  std::optional<Fraction> mfu, hfu, mfu_wall;
  std::optional<FlopRate> reached;  // model FLOP of the steps / their time
  std::optional<FlopRate> peak, ceiling;
  std::optional<ByteRate> bandwidth;   // of one device's memory
  std::optional<Fraction> of_ceiling;  // `reached` / the ceilings of all devices
  std::string peak_source, ceiling_source, device, dtype;
  std::uint64_t devices = 1;
  std::optional<Fraction> phase[kStepPhases];  // shares of step time, over all ranks
  std::vector<RunDeviceReport> by_device;
  bool asynchronous = false;  // accelerators worked asynchronously to the host
  bool device_timed = false;  // the accelerators' clocks timed steps and their parts
  std::vector<RunRankReport> by_rank;
  std::optional<std::uint32_t> slowest_rank;  // only if one stands out
  std::vector<Finding> findings;              // the best first
  std::chrono::nanoseconds step_time{};       // sum over the ranks, without ignored steps
  std::vector<std::uint64_t> profiled_steps;  // explained steps of the rank that has most of them
  std::optional<RunExplanation> explain;      // none if no step was explained
  bool partial = false;
  std::vector<Note> contradictions, notes;
};

RunReport report_run(const RunRecord& record, const RunQuestion& question);

}  // namespace mfu
