// A region's content as frames, and frames as a ProcessRecord. One way for all: what the drainer
// appends to a file and what a reader finds in the region of a dead process are the same bytes.
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
// What changes all along: rank, tokens, times, drops.
std::string status_payload(const RegionHeader& header);
std::string totals_payload(const Region& region);
std::string facts_payload(const Region& region);
// What passes were for; empty where none ended yet.
std::string phases_payload(const Region& region);

// What passes came to up to the end of a window of a process that takes no steps.
std::string window_payload(const Region& region, std::uint64_t start_ns, std::uint64_t end_ns);

// Frames for the records from `from` up to `to` (counted like step_head; at most a ring of them).
void append_steps(std::string& frames, const Region& region, std::uint64_t from, std::uint64_t to);

// Everything a region holds, the records that were not drained among it.
std::string frames_of(const Region& region);

// Adds what the frames of a file say; its steps are in order, each once. What is damaged is passed
// over, and a note with `name` and the byte says so.
void decode_process(std::string_view bytes, const std::string& name, ProcessRecord& process,
                    std::vector<std::string>& damage);

// The same, each step given as it is met: not in order, some perhaps twice.
void decode_process(std::string_view bytes, const std::string& name, ProcessRecord& process,
                    std::vector<std::string>& damage, const std::function<void(Step)>& give);

// By rank, those without one last.
bool comes_before(const ProcessRecord& a, const ProcessRecord& b);
void sort_processes(std::vector<ProcessRecord>& processes);

}  // namespace mfu
