// A region's memory, made by the process that counts. region_open.h is for those who read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

// The same where it can be made: in `folder`, in the launcher's spare one ($MFU_REGION_SPARE), or,
// beyond a limit on file sizes, in a file that the launcher makes (a `patient` caller waits two
// seconds for it). `note` says where another place had to do; a failure is left for the launcher.
Result<Region*> create_region_or_near(const std::string& folder, Region* over, bool patient,
                                      std::string& note);

// Names in a region folder: what a process wishes for (kWish + pid), and what it gets.
inline constexpr std::string_view kWish = "wish-";
inline constexpr std::string_view kBlank = ".blank-";

}  // namespace mfu
