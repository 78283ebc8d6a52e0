// Computes numbers from a run's steps: which are warm-up, how long they take, what they add up to.
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

// The device that most of a process's operators ran on, as its driver names it ("NVIDIA H100 80GB
// HBM3"). "cpu" if there was no other.
std::string device_name(const ProcessRecord& process);

// Where fp32 work was allowed to run in TF32.
Tf32 tf32_of(const RunRecord& record);
// True if every process on an accelerator said that fp32 matmuls may not run in TF32. If one did
// not say, nothing is advised.
bool tf32_refused(const RunRecord& record);

PeakQuestion peak_question(const RunQuestion& question);

// Whether a process saw tokens. mfu 0.1.0 took all lookups in a process's widest table for tokens.
// Of its processes only those count whose table is the widest of all, because pipeline stages
// without the vocabulary look up other, smaller tables.
bool counts_tokens(const RunRecord& record, const ProcessRecord& process);

// Training steps and marked steps, but no validation passes.
std::vector<const Step*> training_steps(const ProcessRecord& process);

// How many steps at the start are warm-up. If there are at least two steps, the first is always
// warm-up: it pays for allocation, autotuning and the first batch. So are the next ones that take
// more than twice the median (compilation), up to half of all steps.
std::uint64_t warmup_of(const std::vector<std::chrono::nanoseconds>& durations);
std::uint64_t warmup_of(const std::vector<const Step*>& steps);

// The length of the union: time in which several ranks run at once counts once.
std::chrono::nanoseconds union_of(std::vector<Interval> intervals);

// Empty if there are no durations. Percentiles are by nearest rank.
std::optional<StepTimes> times_of(std::vector<std::chrono::nanoseconds> durations);

}  // namespace mfu
