// What the passes of a run were for, and what its main threads did.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "mfu/run.h"

namespace mfu {

// The kept steps of one process.
struct KeptSteps {
  const ProcessRecord* process = nullptr;
  std::vector<const Step*> steps;
};

// All passes of one phase and model: what a report is made of.
struct PhaseSum {
  RunPhaseReport report;
  std::uint64_t processes = 0;  // that ran such passes
  std::map<std::string, CountedFlop> by_type;
  std::map<std::uint64_t, std::uint64_t> durations, batches;
  // Of passes that decode some sequences and prefill others.
  std::chrono::nanoseconds mixed_time{};
  FlopCount mixed_flop;
  std::uint64_t mixed_bytes = 0;
};
using PhaseSums = std::map<std::tuple<RunPhase, std::string>, PhaseSum>;

// Of what was kept, shared among types as the whole phase's FLOPs are. Processes that share a
// device share its time.
struct PhaseUse {
  std::optional<Fraction> mfu, hfu, mbu;
};
PhaseUse use_of(const RunReport& report, const PhaseSum& sum);

// Fills `shares`, `windows`, `idle`, and where there are no steps what the run came to over the
// time of its passes.
void add_windows(const RunRecord& record, const PhaseSums& sums, RunReport& report);

// The name of each model of a process; the second of a class has a number.
std::map<std::uint32_t, std::string> model_names(const ProcessRecord& process);

// Fills `phases`, `tokens_by_kind`, `host` and `host_idle`. The sums of the phases are the run's to
// the digit: what no pass holds (one under way when it was read) is `other`. Asks the report for
// its types' peaks.
void add_phases(const RunRecord& record, const std::vector<KeptSteps>& kept, RunReport& report);

}  // namespace mfu
