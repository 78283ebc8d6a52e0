// Finds where steps end, and how long the training loop waits for a batch, for the optimizer and
// for collectives. torch's own named ranges tell (RecordFunction, user scope only, so operators
// stay untouched), and the Python glue.
#pragma once

#include <cstdint>
#include <string>

namespace mfu::observer {

// Call it once per process, on the thread whose waiting for data counts.
void watch_ranges(const std::string& step_marker);
// Called by the glue. If `leads`, ranges named Optimizer.step end no step.
void optimizer_stepped(bool leads) noexcept;
void mark_step(std::int64_t index) noexcept;
// Parameters changed although no optimizer told us: a step ended.
void update_seen() noexcept;
// Called when the process ends. `updated`: parameters were updated since the last pass began.
void finish_updates(bool updated) noexcept;
std::uint64_t steps() noexcept;
// Called in a forked child, where nothing is under way.
void forget_ranges() noexcept;

}  // namespace mfu::observer
