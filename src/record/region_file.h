// A region's memory: made by the process that counts, opened by the one that drains, copied by a
// reader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mfu/result.h"
#include "record/region.h"

namespace mfu {

std::uint64_t monotonic_ns();
std::uint64_t realtime_ns();

// When a process began, in ticks since boot: with the pid it names one process for good. 0: there
// is no such process (or no /proc).
std::uint64_t process_start_ticks(std::uint32_t pid);

// This host's name, safe in a file name.
std::string host_name();

// A region with its header filled in: a file in `folder`, or private memory where that is empty.
// Never unmapped. `over`: memory of a private region whose content the new one takes over, in
// place.
Result<Region*> create_region(const std::string& folder, Region* over = nullptr);

// Another process's region, mapped to be drained; unmapped by the deleter.
struct RegionUnmapper {
  void operator()(Region* region) const;
};
using MappedRegion = std::unique_ptr<Region, RegionUnmapper>;
Result<MappedRegion> map_region(const std::string& path);

// A copy, which no other process can change under a reader.
Result<std::unique_ptr<Region>> copy_region(const std::string& path);

}  // namespace mfu
