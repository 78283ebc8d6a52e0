// Which events count floating-point operations on a processor, as perf_event_open takes them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace mfu {

struct PerfEvent {
  std::string_view name;
  std::uint64_t config;  // umask << 8 | event
  std::uint64_t flop_per_count;
};

// None: nobody wrote down this processor's events.
std::vector<PerfEvent> flop_events(std::string_view vendor, unsigned family, unsigned model,
                                   bool avx512);

}  // namespace mfu
