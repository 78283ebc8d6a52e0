#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "base/file.h"
#include "record/codec.h"
#include "record/frames.h"
#include "record/region_file.h"
#include "record/region_open.h"
#include "record/run_folder.h"

namespace mfu {

namespace {

constexpr std::uint64_t kMostFileBytes = 1u << 30;  // of a process: some ten million steps

// The frames of every process by the stem of its file's name, from disk and from memory.
struct Source {
  std::string file;    // magic and frames
  std::string region;  // frames
};
struct Sources {
  std::map<std::string, Source> bytes;
  std::vector<std::string> damage;
};

// After the regions: what is drained in between is then in both, not in neither.
void add_files(const std::string& directory, Sources& sources) {
  for (const std::string& name : names_in(directory, ".steps")) {
    Result<std::string> bytes = read_file(directory + "/" + name, kMostFileBytes);
    if (!bytes.has_value()) {
      sources.damage.push_back(bytes.error().message);
      continue;
    }
    sources.bytes[name.substr(0, name.size() - 6)].file = std::move(bytes).value();
  }
}

// What processes of this machine hold, or left when they were killed with nobody to drain them.
void add_regions(const std::string& folder, Sources& sources) {
  for (const std::string& name : names_in(folder, ".region")) {
    Result<std::unique_ptr<Region>> region = copy_region(folder + "/" + name);
    if (!region.has_value()) {
      sources.damage.push_back(region.error().message);
      continue;
    }
    sources.bytes[name.substr(0, name.size() - 7)].region = frames_of(*region.value());
  }
}

}  // namespace

void sort_processes(std::vector<ProcessRecord>& processes) {
  auto key = [](const ProcessRecord& each) {
    return std::tuple(each.rank.value_or(~0u), each.host, each.started, each.pid);
  };
  std::sort(processes.begin(), processes.end(),
            [&](const ProcessRecord& a, const ProcessRecord& b) { return key(a) < key(b); });
}

Result<RunRecord> read_run(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    return fail(ErrorCode::not_found,
                fmt::format("{}: there is no such run directory (mfu run makes one)", directory));
  }
  RunRecord record;
  Sources sources;
  add_files(directory, sources);
  std::vector<std::string> launches = launch_files(directory);
  if (launches.empty() && sources.bytes.empty()) {
    return fail(
        ErrorCode::malformed,
        fmt::format("{}: holds no run: neither run.json nor a .steps file is there", directory));
  }
  for (const std::string& name : launches) {
    Result<LaunchFile> launch = read_launch(directory + "/" + name);
    if (!launch.has_value()) {
      sources.damage.push_back(launch.error().message);
      continue;
    }
    if (name == "run.json" || record.run.host.empty()) record.run = launch->facts;
    if (launch->facts.host != host_name()) continue;
    add_regions(launch->region_folder, sources);
    for (std::string& note : process_notes(launch->region_folder)) {
      record.unobserved.push_back(std::move(note));
    }
  }
  for (std::string& note : process_notes(directory)) record.unobserved.push_back(std::move(note));
  add_files(directory, sources);
  if (launches.empty() && sources.bytes.empty()) {
    return fail(
        ErrorCode::malformed,
        fmt::format("{}: holds no run: neither run.json nor a .steps file is there", directory));
  }
  for (auto& [stem, source] : sources.bytes) {
    if (source.file.empty()) source.file = kFileMagic;
    ProcessRecord process;
    decode_process(source.file + source.region, directory + "/" + stem + ".steps", process,
                   sources.damage);
    record.processes.push_back(std::move(process));
  }
  sort_processes(record.processes);
  record.partial = !sources.damage.empty();
  record.notes = std::move(sources.damage);
  return record;
}

}  // namespace mfu
