// The part of a region that says what passes were for (docs/formats/run.md, Phases). It has tables
// of models and devices, FLOPs by phase, model, device and type, and tokens and time by phase and
// model. It is written at the end of a pass, under the recorder's lock, so an operator pays nothing
// for it. FLOPs that are in no line yet (a running pass) are the total minus the lines; readers
// call that `other`.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace mfu {

inline constexpr std::size_t kRegionModels = 32;  // the last one stands for all beyond
// Numbers that are no model. `kMixed`, added to a model's number, marks parts of passes that
// decoded some sequences and prefilled others; their time is in the decode line. `kIdleModel` in
// the phase `other` is time in which no pass ran.
inline constexpr std::uint32_t kMixed = 0x40, kIdleModel = 0xFF;
inline constexpr std::size_t kRegionDevices = 16;
inline constexpr std::size_t kRegionLines = 256;
inline constexpr std::size_t kRegionPasses = 64;  // pairs (phase, model)
inline constexpr std::size_t kStepPasses = 6;     // of one step; the last takes what is over

using RegionWord = std::atomic<std::uint64_t>;
static_assert(RegionWord::is_always_lock_free && sizeof(RegionWord) == 8);

// What a pass was for. The same order is in mfu/record.h.
enum class PassPhase : std::uint8_t { train, validation, prefill, decode, forward, other };
inline constexpr std::size_t kPassPhases = 6;

// What the main thread did, in nanoseconds. The rest of its time is not known.
enum class HostLine : std::uint8_t { compute, loader, device_wait, io, sleep, preempted };
inline constexpr std::size_t kHostLines = 6;

struct RegionModel {
  char name[96];  // of its class, "GPT2LMHeadModel"; empty: not known
};

struct RegionDevice {
  char name[64];      // "cuda:0"
  char identity[64];  // its uuid; empty: not known
};

// A histogram for medians and percentiles. Small values are exact; each octave above has 16
// buckets.
struct RegionSpread {
  static constexpr std::size_t kBuckets = 512;
  std::array<std::atomic<std::uint32_t>, kBuckets> counts;

  static constexpr std::size_t bucket_of(std::uint64_t value) {
    if (value < 32) return static_cast<std::size_t>(value);
    auto octave = static_cast<std::size_t>(std::bit_width(value)) - 5;  // 1: 32…63
    std::size_t bucket = 16 * octave + static_cast<std::size_t>(value >> octave);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }
  // The middle of a bucket.
  static constexpr std::uint64_t value_of(std::size_t bucket) {
    if (bucket < 32) return bucket;
    std::size_t octave = bucket / 16 - 1;
    std::uint64_t low = static_cast<std::uint64_t>(bucket % 16 + 16) << octave;
    return low + (std::uint64_t{1} << octave) / 2;
  }
};

// FLOPs of one (phase, model, device, type). 128-bit sums in two halves, as in RegionCell.
struct RegionLine {
  RegionWord calls;
  RegionWord hardware_low, hardware_high;
  RegionWord model_low, model_high;
  RegionWord recomputed_low, recomputed_high;
  RegionWord bytes;
};

// All passes of one phase and model.
struct RegionPass {
  RegionWord passes, tokens, padded_tokens, samples, time_ns;
  RegionWord weight_read_bytes, cache_read_bytes, cache_written_bytes;
  RegionWord largest_batch;
  RegionSpread durations_ns, batches;
};

struct RegionPhases {
  std::atomic<std::uint32_t> models, devices;  // used of each table
  std::array<RegionModel, kRegionModels> model;
  std::array<RegionDevice, kRegionDevices> device;
  // (phase << 24 | model << 16 | device << 8 | type) + 1; 0: unused
  std::array<std::atomic<std::uint32_t>, kRegionLines> line_keys;
  std::array<std::atomic<std::uint32_t>, kRegionPasses> pass_keys;  // (phase << 8 | model) + 1
  RegionWord carries;  // odd while a line's high half is being written
  std::array<RegionLine, kRegionLines> lines;
  std::array<RegionPass, kRegionPasses> passes;
};

// The sums of one phase and model within a step.
struct StepPass {
  std::uint16_t key;  // phase << 8 | model
  std::uint16_t reserved;
  std::uint32_t passes;
  std::uint64_t hardware_flop, model_flop;
  std::uint64_t tokens, padded_tokens;
  std::uint64_t time_ns;
};
static_assert(sizeof(StepPass) == 48);

}  // namespace mfu
