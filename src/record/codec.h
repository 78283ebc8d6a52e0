// Turns a region into frames, and frames into a ProcessRecord. There is one form for all: what the
// drainer appends to a file and what a reader makes from a dead process's region are the same
// bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/record.h"
#include "record/region.h"

namespace mfu {

// The first frame of a file: who the process is.
std::string process_payload(const RegionHeader& header);
// What changes during a run: rank, tokens, times, drops.
std::string status_payload(const RegionHeader& header);
std::string totals_payload(const Region& region);
std::string facts_payload(const Region& region);
// What passes were for. Empty if no pass has ended yet.
std::string phases_payload(const Region& region);

// The sums over passes up to the end of a window, for a process that takes no steps.
std::string window_payload(const Region& region, std::uint64_t start_ns, std::uint64_t end_ns);

// Frames for the records from `from` up to `to` (counted like step_head; at most a ring of them).
void append_steps(std::string& frames, const Region& region, std::uint64_t from, std::uint64_t to);

// Everything in a region, including the records that were not drained.
std::string frames_of(const Region& region);

// Adds the content of a file's frames. Its steps are in order, each once. Damaged bytes are
// skipped, and a note names `name` and the byte.
void decode_process(std::string_view bytes, const std::string& name, ProcessRecord& process,
                    std::vector<std::string>& damage);

// The same, but each step is passed on as it is found: perhaps out of order, perhaps twice.
void decode_process(std::string_view bytes, const std::string& name, ProcessRecord& process,
                    std::vector<std::string>& damage, const std::function<void(Step)>& give);

// By rank, those without one last.
bool comes_before(const ProcessRecord& a, const ProcessRecord& b);
void sort_processes(std::vector<ProcessRecord>& processes);

}  // namespace mfu
