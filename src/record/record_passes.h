// How the recorder writes what passes were for (region_passes.h). Only one thread may write at a
// time: the caller holds the recorder's lock.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/region.h"

namespace mfu {

// FLOPs of a pass on one device in one type.
struct PassFlop {
  std::uint8_t device = 0, type = 0;
  std::uint64_t calls = 0, hardware_flop = 0, model_flop = 0, recomputed_flop = 0, bytes = 0;
};

// One pass, or several of one kind at once.
struct PassEnd {
  PassPhase phase = PassPhase::other;
  std::uint8_t model = 0;
  std::uint64_t passes = 1;
  std::uint64_t tokens = 0, padded_tokens = 0, samples = 0;
  std::uint64_t token_rows = 0;  // of the table they were looked up in; 0: no tokens were seen
  std::uint64_t duration_ns = 0;
  std::uint64_t batch = 0;  // sequences; 0: not known
  std::uint64_t weight_read_bytes = 0, cache_read_bytes = 0, cache_written_bytes = 0;
  std::span<const PassFlop> flop{};
};

class PassBook {
 public:
  // The number of a name. Equal names have the same number. If the table is full, new names share
  // the last number.
  unsigned device_id(Region* region, std::string_view name, std::string_view identity);
  unsigned add_model(Region* region);  // one more, without a name yet
  void name_model(Region* region, unsigned model, std::string_view name);

  void add(Region& region, const PassEnd& pass);
  // Adds time that belongs to a phase but to none of its passes.
  void add_time(Region& region, PassPhase phase, unsigned model, std::uint64_t duration_ns);
  // Moves what was added since the last record into this record.
  void take(const Region& region, StepRecord& record);

  void write_tables(Region& region) const;  // into a region that has just begun
  void forget_numbers();                    // in a forked child, whose region begins empty

 private:
  struct Mark {
    std::uint64_t hardware_flop = 0, model_flop = 0;  // of all devices and types, wrapping
    std::uint64_t passes = 0, tokens = 0, padded_tokens = 0, time_ns = 0;
    std::uint64_t moved_bytes = 0;
  };
  struct Device {
    std::string name, identity;
  };
  std::size_t pass_index(Region& region, std::uint32_t key);

  std::vector<Device> devices_;
  std::vector<std::string> models_;
  Mark now_[kRegionPasses] = {}, mark_[kRegionPasses] = {};
};

}  // namespace mfu
