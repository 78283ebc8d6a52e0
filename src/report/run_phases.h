// What the passes of a run were for, and what its main threads did.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "mfu/run.h"

namespace mfu {

// The steps of one process that are kept.
struct KeptSteps {
  const ProcessRecord* process = nullptr;
  std::vector<const Step*> steps;
};

// The sum over all passes of one phase and one model. Reports are made from it.
struct PhaseSum {
  RunPhaseReport report;
  std::uint64_t processes = 0;  // that ran such passes
  std::map<std::string, CountedFlop> by_type;
  std::map<std::uint64_t, std::uint64_t> durations, batches;
  // Time of passes that decode some sequences and prefill others.
  std::chrono::nanoseconds mixed_time{};
  FlopCount mixed_flop;
  std::uint64_t mixed_bytes = 0;
};
using PhaseSums = std::map<std::tuple<RunPhase, std::string>, PhaseSum>;

// What the kept passes used. FLOPs are divided among types like those of the whole phase. If
// processes share a device, they share its time.
struct PhaseUse {
  std::optional<Fraction> mfu, hfu, mbu;
};
PhaseUse use_of(const RunReport& report, const PhaseSum& sum);
// Whether the time of such passes is only that of their launches, because the device's own clock
// timed the steps. Then it is part of no rate. A program that generates reads each token, so there
// the host has waited.
bool only_launched(const RunReport& report, RunPhase phase);

// Fills `shares`, `windows` and `idle`. For a run without steps it also fills the totals, over the
// time of its passes.
void add_windows(const RunRecord& record, const PhaseSums& sums, RunReport& report);

// The name of each model of a process; the second of a class has a number.
std::map<std::uint32_t, std::string> model_names(const ProcessRecord& process);

// Fills `phases`, `tokens_by_kind`, `host` and `host_idle`. The phases add up to the run to the
// digit: FLOPs of a pass that was still under way are `other`. The report must already have the
// peaks of its types.
void add_phases(const RunRecord& record, const std::vector<KeptSteps>& kept, RunReport& report);

}  // namespace mfu
