// Makes the memory of a region, in the process that counts. region_open.h reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mfu/result.h"
#include "record/region.h"

namespace mfu {

std::uint64_t monotonic_ns();
std::uint64_t realtime_ns();

// When a process began, in ticks since boot. Together with the pid it identifies a process. 0 if
// there is no such process (or no /proc).
std::uint64_t process_start_ticks(std::uint32_t pid);

// This host's name, safe in a file name.
std::string host_name();

// Makes a region and fills in its header: a file in `folder`, or private memory if that is empty.
// It is never unmapped. If `over` is given, the new region takes the content and the address of
// that private region.
Result<Region*> create_region(const std::string& folder, Region* over = nullptr);

// The same, with other places if needed: in `folder`, in the launcher's spare folder
// ($MFU_REGION_SPARE), or, if a limit on file sizes forbids both, in a file that the launcher makes
// (a `patient` caller waits two seconds for it). `note` says if another place was used. If all
// fail, a note is left for the launcher.
Result<Region*> create_region_or_near(const std::string& folder, Region* over, bool patient,
                                      std::string& note);

// File names in a region folder: what a process asks for (kWish + pid), and what it gets.
inline constexpr std::string_view kWish = "wish-";
inline constexpr std::string_view kBlank = ".blank-";

}  // namespace mfu
