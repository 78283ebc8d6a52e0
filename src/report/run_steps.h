// Steps of a run as numbers: which are warm-up, how long they last, what they add up to.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mfu/record.h"
#include "mfu/run.h"

namespace mfu {

using Interval = std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds>;

// What a process's operators ran on most, by its driver's name ("NVIDIA H100 80GB HBM3"); "cpu"
// where there was no other.
std::string device_name(const ProcessRecord& process);

// Where fp32 work was allowed to run in TF32.
Tf32 tf32_of(const RunRecord& record);
// Every accelerator's process said that fp32 matmuls may not run in TF32: where one did not say,
// nothing is advised.
bool tf32_refused(const RunRecord& record);

PeakQuestion peak_question(const RunQuestion& question);

// Whether a process saw tokens. mfu 0.1.0 took all lookups in its widest table for tokens: of its
// processes only those count whose table is the widest of all (pipeline stages without the
// vocabulary look up other, smaller ones).
bool counts_tokens(const RunRecord& record, const ProcessRecord& process);

// Training and marked steps; validation passes are none.
std::vector<const Step*> training_steps(const ProcessRecord& process);

// How many of the first steps are warm-up. The first one always is where there is a second (it pays
// for allocation, autotuning, the first batch), and so are those after it that take over twice the
// median (compilation), up to half of all.
std::uint64_t warmup_of(const std::vector<std::chrono::nanoseconds>& durations);
std::uint64_t warmup_of(const std::vector<const Step*>& steps);

// Length of the union: time that several ranks spend at once counts once.
std::chrono::nanoseconds union_of(std::vector<Interval> intervals);

// None where there are no durations. Percentiles by nearest rank.
std::optional<StepTimes> times_of(std::vector<std::chrono::nanoseconds> durations);

}  // namespace mfu
