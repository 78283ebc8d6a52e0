// Where steps end and what else the training loop's time went to: waiting for a batch, optimizer,
// collectives. Told by torch's own named ranges (RecordFunction, user scope only: operators stay
// untouched) and by the Python glue.
#pragma once

#include <cstdint>
#include <string>

namespace mfu::observer {

// Once a process; the thread that calls it is the one whose waiting for data counts.
void watch_ranges(const std::string& step_marker);
// From the glue. With one, ranges named Optimizer.step end no step.
void optimizer_stepped(bool leads) noexcept;
void mark_step(std::int64_t index) noexcept;
// Parameters were updated by nobody who told us: a step ended.
void update_seen() noexcept;
std::uint64_t steps() noexcept;
// In a forked child: nothing is under way.
void forget_ranges() noexcept;

}  // namespace mfu::observer
