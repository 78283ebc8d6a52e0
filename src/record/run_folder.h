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
  std::uint64_t start_ticks = 0;  // together with the pid it identifies a process; 0: not known
  std::string pids;               // the namespace of its pids; empty if not known
  std::string file;               // its name, if it was found in a listing
  std::string region_folder, spare_folder;
  std::string job;    // empty if there is none
  std::string place;  // the same for a launcher that is started again
  std::uint32_t attempt = 0;
  std::optional<std::uint32_t> task, tasks;
};

Result<LaunchFile> read_launch(const std::string& path);

// What a new launcher finds in a directory.
struct Standing {
  bool aside = false;                    // the directory has a finished run, which is moved aside
  std::uint32_t attempt = 0;             // the attempt of the new launcher
  std::vector<std::string> leftovers{};  // region folders of launchers that were killed here
};
Standing standing_in(const std::string& directory, const LaunchFile& mine);
// Whether a launcher of the same place ran there and ended well.
bool has_finished(const std::string& directory, const LaunchFile& mine);
// Moves an earlier run as a whole to earlier-N.
Result<void> put_aside(const std::string& directory);
// Writes this launcher's file, which is run.json or has a name of its own, and returns its path.
Result<std::string> add_launch(const std::string& directory, const LaunchFile& launch);

// The names in a folder that end so, sorted. Empty if the folder cannot be read.
std::vector<std::string> names_in(const std::string& folder, std::string_view ending);

// What processes that could not be observed wrote (note-PID.txt), one line each.
std::vector<std::string> process_notes(const std::string& folder);

// Whether the launcher has ended: it said so, or it was on this machine and no longer exists.
bool is_over(const LaunchFile& launch);
// The boot and the namespace that this process's pid belongs to. Two machines or containers may
// have the same host name.
std::string pids_here();

// The files of all launchers in `directory`: run.json and those of launchers that joined.
std::vector<std::string> launch_files(const std::string& directory);

}  // namespace mfu
