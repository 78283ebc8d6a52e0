// How the observer writes counts by operator and data type, steps, times and facts. A process has
// one recorder. Any thread may use it, also while the process ends. A forked child begins its own
// region at its first count and inherits nothing. Nothing here throws, waits for a disk or fails
// into the caller: without a folder for regions, counts are kept in private memory.
//
//   Recorder& recorder = Recorder::process();
//   recorder.start({.folder = getenv("MFU_REGION_DIR")});
//   static const unsigned kMm = recorder.operator_id("aten::mm");
//   recorder.count(kMm, recorder.type_id("bf16"), {.hardware_flop = 2 * m * n * k, …});
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/units.h"
#include "record/record_passes.h"
#include "record/region.h"

namespace mfu {

// Of one call.
struct CallCost {
  std::uint64_t hardware_flop = 0;
  std::uint64_t model_flop = 0;
  std::uint64_t recomputed_flop = 0;
  std::uint64_t bytes = 0, calls = 1;
};

struct RecorderOptions {
  std::string_view folder;  // folder for regions (MFU_REGION_DIR); empty: private memory
};

struct StepEnd {
  StepKind kind = StepKind::training;
  std::uint64_t start_ns = 0;   // CLOCK_MONOTONIC; 0: where the last step ended
  std::uint64_t end_ns = 0;     // 0: now
  std::uint64_t index = ~0ull;  // the program's own number; ~0: none
};

class Recorder {
 public:
  // Made at the first call, never destroyed.
  static Recorder& process();

  // Makes the region of this process. False if counts stay in private memory: why() says why.
  bool start(const RecorderOptions& options);
  void stop();  // marks a normal end; later counts are still taken
  bool started() const { return started_.load(std::memory_order_relaxed); }
  std::string why() const;
  // The number of a name. `reason` says why its FLOPs are not counted; empty if they are. If the
  // table is full, new names share the last number.
  unsigned operator_id(std::string_view name, std::string_view reason = {});
  unsigned type_id(std::string_view name);

  // The hot path: no lock, no atomic shared with other threads, no allocation after the first call.
  void count(unsigned operator_id, unsigned type_id, const CallCost& cost) {
    count(block_, operator_id, type_id, cost);
  }
  // The same for a caller that has kept `block()` of its thread, which saves the lookup.
  void count(RegionBlock* block, unsigned operator_id, unsigned type_id, const CallCost& cost) {
    std::uint16_t cell = cell_of_[operator_id % kRegionOperators][type_id % kRegionTypes].load(
        std::memory_order_relaxed);
    if (block == nullptr || cell == 0) [[unlikely]] {
      count_slowly(operator_id, type_id, cost);
      return;
    }
    add(*block, block->cells[cell - 1u], cost);
  }

  // Where this thread keeps the pointer to its block. The pointer may change, the place does not.
  static RegionBlock* const* block() { return &block_; }

  // Gives this thread a block. Null if there is no region, or if there are more threads than
  // blocks.
  RegionBlock* lease_block();

  // Adds a finished pass. Its FLOPs have been counted already.
  void add_pass(const PassEnd& pass);
  void add_pass_time(PassPhase phase, unsigned model, std::uint64_t duration_ns);
  unsigned device_id(std::string_view name, std::string_view identity = {});
  unsigned add_model();
  void name_model(unsigned model, std::string_view name);

  void add_phase(RegionPhase phase, std::uint64_t duration_ns);
  void add_host(HostLine line, std::uint64_t duration_ns);
  void add_collective(std::uint64_t bytes);
  // Makes a step of what all threads counted since the last one. A full ring drops it: no waiting.
  void end_step(const StepEnd& end);
  void add_device_times(std::uint64_t ago, const std::vector<std::uint64_t>& durations_ns);
  void set_profiled(std::uint8_t how) { profiled_.store(how); }  // of the steps to come
  void answer(std::uint64_t request);                            // was taken up

  void set_rank(std::int32_t rank, std::int32_t world_size, std::int32_t local_rank);
  // "device" "cuda:0 NVIDIA H100". The last fact of a key counts, but every "note" is kept.
  void fact(std::string_view key, std::string_view value);

  struct Total {
    std::string name, reason, type;
    std::uint64_t calls = 0;
    FlopCount hardware_flop, model_flop, recomputed_flop;
    std::uint64_t bytes = 0;
  };
  // Everything counted so far, by operator and type. Subtract two readings.
  std::vector<Total> totals() const;

  const Region* region() const { return region_.load(std::memory_order_acquire); }

 private:
  Recorder();
  struct State;
  struct Lease;
  Region* live_region();  // made if a forked child has none yet; null if not started
  void lease_block(Region& region);
  void count_slowly(unsigned operator_id, unsigned type_id, const CallCost& cost);
  static void carry(RegionBlock& block, RegionWord& low, RegionWord& high, std::uint64_t sum);

  static void add(RegionBlock& block, RegionWord& low, RegionWord& high, std::uint64_t more) {
    std::uint64_t before = low.load(std::memory_order_relaxed);
    std::uint64_t sum = before + more;
    if (sum < before) [[unlikely]] {
      carry(block, low, high, sum);
    } else {
      low.store(sum, std::memory_order_release);
    }
  }
  static void add(RegionWord& word, std::uint64_t more) {
    word.store(word.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  static void add(RegionBlock& block, RegionCell& cell, const CallCost& cost) {
    add(cell.calls, cost.calls);
    add(block, cell.hardware_low, cell.hardware_high, cost.hardware_flop);
    add(block, cell.model_low, cell.model_high, cost.model_flop);
    if (cost.recomputed_flop != 0) {
      add(block, cell.recomputed_low, cell.recomputed_high, cost.recomputed_flop);
    }
    add(cell.bytes, cost.bytes);
  }

  static thread_local constinit RegionBlock* block_;  // null if it has none, or shares one
  std::atomic<std::uint16_t> cell_of_[kRegionOperators][kRegionTypes] = {};  // 0: none yet
  std::atomic<Region*> region_ = nullptr;
  std::atomic<bool> started_ = false;
  std::atomic<std::uint8_t> profiled_ = 0;
  State* state_;
};

}  // namespace mfu
