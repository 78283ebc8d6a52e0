// What a run came to: MFU with its peak and source, where the step time went, which rank is slow,
// and what to change first. Made from a RunRecord and a device; formatted by mfu/sink.h.
//
//   mfu::RunRecord record = mfu::read_run("mfu-runs/gpt2").value();
//   mfu::RunDevice device = mfu::device_of_run(record, mfu::Catalog::builtin(), "").value();
//   std::puts(mfu::to_json(mfu::report_run(record, {.device = device})).c_str());
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mfu/attribution.h"
#include "mfu/ceiling.h"
#include "mfu/hardware.h"
#include "mfu/model.h"
#include "mfu/record.h"
#include "mfu/step_report.h"
#include "mfu/utilization.h"

namespace mfu {

// The device the peak is of. One CPU is one device, however many ranks share it.
struct RunDevice {
  std::string name;
  std::optional<Device> device;  // none: no MFU; `notes` say why
  std::optional<Ceiling> ceiling;
  std::uint64_t devices = 1;  // that the run used
  std::vector<std::string> notes;
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
  std::optional<StepTimes> step;
  std::optional<std::chrono::nanoseconds> own;  // median of step less communication
  CountedFlop flop;
  std::optional<std::uint64_t> tokens, samples;  // none where the run has none
  std::optional<Fraction> phase[kStepPhases];    // of its step time
};

// All passes of one phase and model, over all ranks.
struct RunPhaseReport {
  RunPhase phase = RunPhase::other;
  std::string model;  // of its class; empty: not known
  std::uint64_t passes = 0;
  std::optional<std::uint64_t> tokens;
  FlopCount model_flop, hardware_flop;
  std::chrono::nanoseconds time{};
  std::optional<Fraction> mfu;
  std::optional<double> tokens_per_s;
  std::uint64_t weight_read_bytes = 0, cache_read_bytes = 0, cache_written_bytes = 0;
  std::optional<std::uint64_t> median_ns, p99_ns;            // of a pass
  std::optional<std::uint64_t> median_batch, largest_batch;  // sequences of a pass
  // After warm-up, outside profiled steps; `mfu` is of these.
  std::chrono::nanoseconds kept_time{};
  FlopCount kept_model_flop;
};

// Positions that entered a first block, by what became of them. The kinds are disjoint.
struct RunTokens {
  std::uint64_t training = 0, evaluation = 0, prompt = 0, generated = 0;
  std::optional<std::uint64_t> padded;  // none: no mask and no label was seen that leaves any out
};

// How the command ended; nothing is known while it runs.
struct RunEnding {
  enum class How { exit, signal, lost };  // lost: a rank was killed, the command ended by itself
  How how = How::exit;
  std::optional<int> status, signal;
  std::optional<std::uint32_t> rank;  // that was killed
};

struct RunReport {
  RunFacts run;
  std::optional<RunEnding> ended;
  std::uint64_t ranks = 0, steps = 0, warmup = 0;
  std::optional<std::chrono::nanoseconds> wall;
  std::optional<StepTimes> step;
  std::optional<CountedFlop> flop;                   // of the whole run; none: nothing could count
  std::map<std::string, OperatorTotal> by_operator;  // counted ones, all types together
  std::vector<RunType> by_type;                      // most model FLOP first
  std::vector<OperatorTotal> uncounted;              // by name
  std::uint64_t counted_calls = 0;
  std::optional<std::uint64_t> tokens, samples;
  std::optional<double> tokens_per_s;
  std::vector<RunPhaseReport> phases;        // in RunPhase's order; empty: not known
  std::optional<RunTokens> tokens_by_kind;   // none: no tokens were seen
  std::optional<Fraction> host[kHostParts];  // of the main threads' step time
  std::optional<Fraction> host_idle;         // what none of them is
  std::optional<Fraction> mfu, hfu, mfu_wall;
  std::optional<FlopRate> reached;  // model FLOP of steps over their time
  std::optional<FlopRate> peak, ceiling;
  std::optional<Fraction> of_ceiling;  // `reached` of all devices' ceilings
  std::string peak_source, ceiling_source, device, dtype;
  std::uint64_t devices = 1;
  std::optional<Fraction> phase[kStepPhases];  // of step time, over all ranks
  std::vector<RunRankReport> by_rank;
  std::optional<std::uint32_t> slowest_rank;  // where one stands out
  std::vector<Finding> findings;              // best first
  bool partial = false;
  std::vector<Note> contradictions, notes;
};

RunReport report_run(const RunRecord& record, const RunQuestion& question);

// Its steps one by one, by process: training and marked ones, warm-up among them. A rank's MFU is
// of its own step against one device; the ranks that share one add up.
std::vector<StepReport> report_run_steps(const RunRecord& record, const RunQuestion& question);

}  // namespace mfu
