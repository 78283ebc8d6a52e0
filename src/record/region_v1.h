// Layout 1 of a region, which mfu 0.1.0 wrote. Regions of an older observer are read as layout 2
// (region.h). What layout 1 does not have stays empty.
#pragma once

#include <memory>

#include "record/region.h"

namespace mfu::v1 {

inline constexpr std::uint32_t kRegionVersion = 1;

inline constexpr std::size_t kRegionPhases = 5;

// One finished step. Its counts are what all threads did since the last record.
struct StepRecord {
  std::uint64_t sequence;  // from 0 in each process; dropped records leave a gap
  std::uint64_t start_ns;  // CLOCK_MONOTONIC
  std::uint64_t end_ns;
  std::uint64_t tokens;
  std::uint64_t samples;
  std::array<std::uint64_t, kRegionPhases> phase_ns;
  std::uint64_t index;  // the program's own number for the step, or else the sequence
  StepKind kind;
  std::uint8_t types;  // how many of `flop` are used
  std::array<std::uint8_t, 6> reserved;
  std::array<StepFlop, kStepTypes> flop;
};
static_assert(sizeof(StepRecord) == 256 && std::is_trivially_copyable_v<StepRecord>);

struct alignas(64) RegionHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t pid;
  std::uint64_t region_bytes;
  std::uint32_t parent_pid;
  std::uint32_t reserved;
  // field 22 of /proc/PID/stat; together with the pid it identifies a process
  std::uint64_t process_start_ticks;
  std::uint64_t start_monotonic_ns;
  std::uint64_t start_realtime_ns;
  char host[64];
  // CPUs the process could use when it started, one bit each
  std::array<std::uint64_t, 16> affinity;
  std::atomic<std::int32_t> rank, world_size, local_rank;   // -1 if not known
  std::atomic<std::uint32_t> ended;                         // 1: the process said goodbye
  std::atomic<std::uint32_t> operators, types, fact_bytes;  // used of each table
  std::atomic<std::uint32_t> blocks;                        // how many were ever taken
  RegionWord tokens;                                        // lookups in the widest table so far
  RegionWord token_rows;  // rows of that table; 0 if none was seen
  RegionWord samples;
  RegionWord last_ns;  // CLOCK_MONOTONIC of the last sign of life
  std::array<RegionWord, kRegionPhases> phase_ns;
  alignas(64) RegionWord step_head;  // records that were written
  RegionWord steps_dropped;          // because the ring was full
  alignas(64) RegionWord step_tail;  // records that were drained; the drainer writes this
};

struct Region {
  RegionHeader header;
  std::array<RegionOperator, kRegionOperators> operators;
  std::array<std::array<char, 16>, kRegionTypes> types;  // "bf16", ends with 0
  std::array<std::atomic<std::uint32_t>, kRegionCells>
      keys;                                  // (operator << 8 | type) + 1; 0 if unused
  std::array<char, kRegionFactBytes> facts;  // lines "key=value\n", appended
  // the last one is shared by further threads, under a lock
  std::array<RegionBlock, kRegionBlocks + 1> blocks;
  std::array<StepRecord, kRegionSteps> steps;  // a ring
};
static_assert(std::is_standard_layout_v<Region> && sizeof(Region) == 1622080);

// The same numbers in layout 2.
void copy_to(const Region& from, mfu::Region& to);

}  // namespace mfu::v1
