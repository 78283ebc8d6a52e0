// The folders of a run and its run.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mfu/record.h"

namespace mfu {

// What one launcher wrote.
struct LaunchFile {
  RunFacts facts;
  std::uint64_t pid = 0;
  std::string region_folder;
};

Result<LaunchFile> read_launch(const std::string& path);

// Names in a folder that end so, sorted; none where it cannot be read.
std::vector<std::string> names_in(const std::string& folder, std::string_view ending);

// What processes that could not be observed wrote (note-PID.txt), a line each.
std::vector<std::string> process_notes(const std::string& folder);

// run.json and those of launchers that joined, in `directory`.
std::vector<std::string> launch_files(const std::string& directory);

}  // namespace mfu
