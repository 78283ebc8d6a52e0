// The region: the memory in which a process keeps its counts. It is a mapped file in /dev/shm or
// another memory-backed folder. The process makes it, and it outlives the process. All its pages
// are reserved at once, so that no later store can fail. recorder.h writes it; drain.h and
// read_run() read it from outside. Every field has a fixed size and is little-endian
// (docs/formats/run.md). Each block has one writer, and one thread at a time adds steps, so an
// operator never contends for an atomic.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "record/region_passes.h"

namespace mfu {

inline constexpr std::uint64_t kRegionMagic = 0x31474552'5546'4d00;  // "\0MFUREG1" as bytes
inline constexpr std::uint32_t kRegionVersion = 2;                   // 1: region_v1.h

inline constexpr std::size_t kRegionOperators = 256;  // the last one stands for all beyond
inline constexpr std::size_t kRegionTypes = 16;       // data types by name; the last: all beyond
inline constexpr std::size_t kRegionCells = 192;      // pairs (operator, type) a process may count
inline constexpr std::size_t kRegionBlocks = 40;  // threads that count at one time, without a lock
inline constexpr std::size_t kRegionSteps = 4096;
inline constexpr std::size_t kRegionFactBytes = 16384;
inline constexpr std::size_t kStepTypes = 5;  // data types of one step; the last takes what is over

// Time of a process by what it was spent on, in nanoseconds since its start. The same order is in
// StepRecord::phase_ns.
enum class RegionPhase : std::uint8_t {
  data_wait,      // the training loop waited for its next batch
  optimizer,      // Optimizer.step
  communication,  // collectives, as the host saw them
  checkpoint,     // saving state
  validation,     // forward passes without a backward one
};
inline constexpr std::size_t kRegionPhases = 5;

// What a launcher may ask of a program, in RegionHeader::request.
enum class RequestKind : std::uint8_t { none, profile, stop };

// `device_times` is no step: Recorder::add_device_times(ago → tokens, durations → phase_ns).
enum class StepKind : std::uint8_t { training, validation, marked, device_times };

// FLOP of one data type within a step. 64 bits hold 18 EFLOP per rank and step; it saturates there.
struct StepFlop {
  std::uint64_t hardware_flop;
  std::uint64_t model_flop;
  std::uint64_t recomputed_flop;
  std::uint64_t type;  // index into Region::types
};

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
  std::uint8_t types;       // how many of `flop` are used
  std::uint8_t pass_kinds;  // how many of `passes` are used
  std::uint8_t profiled;    // 1: explained. 2: slowed by that. No rate is made from either
  std::array<std::uint8_t, 4> reserved;
  std::array<StepFlop, kStepTypes> flop;
  std::array<StepPass, kStepPasses> passes;
  std::array<std::uint64_t, kHostLines> host_ns;
  std::array<std::uint64_t, kStepPasses> moved_bytes;  // of `passes`; 0: not known
};
static_assert(sizeof(StepRecord) == 640 && std::is_trivially_copyable_v<StepRecord>);

// The sums of one pair (operator, type) in one block. 128-bit sums are in two halves;
// RegionBlock::carries is odd while a carry into the high half is written.
struct RegionCell {
  RegionWord calls;
  RegionWord hardware_low, hardware_high;
  RegionWord model_low, model_high;
  RegionWord recomputed_low, recomputed_high;
  RegionWord bytes;
};
static_assert(sizeof(RegionCell) == 64);

// The counters of one thread. When the thread ends, another thread takes the block and goes on from
// its sums. Nothing is moved, so nothing can be lost or counted twice.
struct alignas(64) RegionBlock {
  std::atomic<std::uint32_t> taken;  // 1 while a thread holds it
  std::uint32_t reserved;
  RegionWord carries;  // odd while a high half is being written
  std::array<std::uint64_t, 6> padding;
  std::array<RegionCell, kRegionCells> cells;
};

struct RegionOperator {
  char name[96];    // "aten::addmm", ends with 0
  char reason[96];  // why it is not counted; empty: it is counted
};

struct alignas(64) RegionHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t pid;
  std::uint64_t region_bytes;
  std::uint32_t parent_pid;
  std::uint32_t reserved;
  std::uint64_t process_start_ticks;  // field 22 of /proc/PID/stat: pid and this name a process
  std::uint64_t start_monotonic_ns;
  std::uint64_t start_realtime_ns;
  char host[64];
  std::array<std::uint64_t, 16> affinity;  // CPUs the process may use when it started, one bit each
  std::atomic<std::int32_t> rank, world_size, local_rank;   // -1: not known
  std::atomic<std::uint32_t> ended;                         // 1: the process said goodbye
  std::atomic<std::uint32_t> operators, types, fact_bytes;  // used of each table
  std::atomic<std::uint32_t> blocks;                        // how many were ever taken
  RegionWord tokens;                                        // tokens that entered a model
  RegionWord token_rows;  // of the widest table they were looked up in; 0: no tokens seen
  RegionWord samples;
  RegionWord last_ns;  // CLOCK_MONOTONIC of the last sign of life
  std::array<RegionWord, kRegionPhases> phase_ns;
  std::array<RegionWord, kHostLines> host_ns;
  RegionWord collectives, collective_bytes;  // calls and bytes the host saw
  char run[64];                              // name of the run (MFU_RUN_ID); may be empty
  std::uint32_t attempt;                     // of the run, from 0 (MFU_ATTEMPT)
  std::uint32_t reserved2;
  alignas(64) RegionWord step_head;  // produced
  RegionWord steps_dropped;          // because the ring was full
  RegionWord answer;                 // the last `request` that the program took up
  // Written by the launcher.
  alignas(64) RegionWord step_tail;  // drained
  // number << 32 | RequestKind << 24 | argument; of a profile: step to begin at << 8 | steps.
  RegionWord request;
};

struct Region {
  RegionHeader header;
  std::array<RegionOperator, kRegionOperators> operators;
  std::array<std::array<char, 16>, kRegionTypes> types;  // "bf16", ends with 0
  std::array<std::atomic<std::uint32_t>, kRegionCells>
      keys;                                           // (operator << 8 | type) + 1; 0: unused
  std::array<char, kRegionFactBytes> facts;           // lines "key=value\n", appended
  RegionPhases phases;                                // what passes were for
  std::array<RegionBlock, kRegionBlocks + 1> blocks;  // the last is shared, under a lock
  std::array<StepRecord, kRegionSteps> steps;         // a ring
};
static_assert(std::is_standard_layout_v<Region>);

}  // namespace mfu
