#include "record/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "base/file.h"
#include "base/secrets.h"
#include "base/text.h"
#include "record/job.h"
#include "record/region_file.h"
#include "record/region_open.h"

namespace mfu {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kRoomBytes = 32u << 20;        // what a region folder should have free
constexpr auto kKeepFor = std::chrono::hours(7 * 24);  // then leftover regions are removed

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "train" of `torchrun … train.py --lr 1`, "bash" of `bash x.sh`.
std::string name_of_command(const std::vector<std::string>& command) {
  std::string chosen = command.empty() ? "run" : command[0];
  for (const std::string& word : command) {
    if (!word.ends_with(".py")) continue;
    chosen = word;
    break;
  }
  std::string name = fs::path(chosen).stem().string();
  std::string safe;
  for (char letter : name) {
    bool plain = std::isalnum(static_cast<unsigned char>(letter)) || letter == '_';
    safe += plain ? letter : '-';
  }
  return safe.substr(0, 40);
}

std::string time_name() {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return fmt::format("{:%Y%m%d-%H%M%S}", local);
}

void remove_forgotten(const std::string& folder) {
  std::error_code ignored;
  for (const auto& run : fs::directory_iterator(folder, ignored)) {
    auto age = fs::file_time_type::clock::now() - fs::last_write_time(run.path(), ignored);
    if (ignored || age < kKeepFor) continue;
    bool alive = false;
    for (const std::string& name : names_in(run.path().string(), ".region")) {
      auto region = copy_region(run.path().string() + "/" + name);
      if (!region.has_value()) continue;
      const RegionHeader& header = region.value()->header;
      alive = alive || process_start_ticks(header.pid) == header.process_start_ticks;
    }
    if (!alive) fs::remove_all(run.path(), ignored);
  }
}

// Makes a folder for this run in `base`. Empty if that fails.
std::string create_folder_in(const std::string& base, const std::string& name,
                             std::vector<std::string>& notes) {
  std::string mine = fmt::format("{}/mfu-{}", base, getuid());
  Result<void> ours = make_own_folder(mine);
  if (!ours.has_value()) {
    notes.push_back(ours.error().message);
    return {};
  }
  remove_forgotten(mine);
  std::string folder = mine + "/" + name;
  return make_own_folder(folder).has_value() ? folder : std::string();
}

// Makes the folder for regions: in memory, if there is such a folder with room.
Result<std::string> create_region_folder(const std::string& name, std::vector<std::string>& notes) {
  std::vector<std::string> bases = {"/dev/shm", environment("XDG_RUNTIME_DIR"),
                                    environment("TMPDIR"), "/tmp"};
  for (const std::string& base : bases) {
    struct statvfs room{};
    if (base.empty() || statvfs(base.c_str(), &room) != 0) continue;
    if (std::uint64_t{room.f_bavail} * room.f_frsize < kRoomBytes) continue;
    std::string folder = create_folder_in(base, name, notes);
    if (folder.empty()) continue;
    if (&base > &bases[1]) {
      notes.push_back(
          fmt::format("no memory-backed folder has room ({} MB): counters go to {}, "
                      "where a slow disk may delay the program",
                      kRoomBytes >> 20, folder));
    }
    return folder;
  }
  return fail(ErrorCode::io, fmt::format("no folder for counters: /dev/shm, $XDG_RUNTIME_DIR, "
                                         "$TMPDIR and /tmp have no {} MB that are ours to write",
                                         kRoomBytes >> 20));
}

// Makes a second folder on another file system, for regions that the first has no room for. Empty
// if there is none.
std::string create_spare_folder(const std::string& name, const std::string& region_folder) {
  std::vector<std::string> ignored;
  for (const std::string& base :
       {environment("TMPDIR"), std::string("/tmp"), std::string("/var/tmp")}) {
    if (base.empty() || region_folder.starts_with(base + "/")) continue;
    std::string folder = create_folder_in(base, name, ignored);
    if (!folder.empty()) return folder;
  }
  return {};
}

// The folder for runs whose own place cannot be written. If another user has made a folder of that
// name, it is not used; a new folder with a name that nobody could know is made instead.
Result<std::string> spare_folder(std::vector<std::string>& notes) {
  std::string temporary = environment("TMPDIR").empty() ? "/tmp" : environment("TMPDIR");
  std::string folder = fmt::format("{}/mfu-runs-{}", temporary, getuid());
  Result<void> ours = make_own_folder(folder);
  if (ours.has_value()) return folder;
  notes.push_back(ours.error().message);
  folder += "-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return fail(ErrorCode::io, fmt::format("no folder for the run: {}", ours.error().message));
  }
  return folder;
}

}  // namespace

std::vector<std::string> names_in(const std::string& folder, std::string_view ending) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    std::string name = each->path().filename().string();
    if (name.ends_with(ending) && !name.starts_with('.')) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> process_notes(const std::string& folder) {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> notes;
  for (const std::string& name : names_in(folder, ".txt")) {
    if (!name.starts_with("note-")) continue;
    Result<std::string> text = read_file(folder + "/" + name, 1u << 16);
    if (!text.has_value()) continue;
    for (std::string_view line : split(*text, '\n')) {
      if (!line.empty() && notes.size() < kMost)
        notes.push_back(printable(without_secrets(line), 1000));
    }
  }
  return notes;
}

namespace {

Result<void> open_directory(RunPlaces& places, LaunchFile& launch) {
  std::error_code error;
  fs::create_directories(places.directory, error);
  if (error) return fail(ErrorCode::io, fmt::format("{}: {}", places.directory, error.message()));
  Standing standing = standing_in(places.directory, launch);
  if (standing.aside) MFU_TRY(put_aside(places.directory));
  places.attempt = launch.attempt = standing.attempt;
  places.leftovers = standing.leftovers;
  places.file = MFU_TRY(add_launch(places.directory, launch));
  return {};
}

LaunchFile launch_of(const std::vector<std::string>& command, const Job& job) {
  LaunchFile launch;
  launch.facts.command = without_secrets(command);  // a directory is shared as it is
  launch.facts.host = host_name();
  launch.facts.started = std::chrono::nanoseconds(static_cast<std::int64_t>(realtime_ns()));
  launch.pid = static_cast<std::uint64_t>(getpid());
  launch.start_ticks = process_start_ticks(static_cast<std::uint32_t>(getpid()));
  launch.pids = pids_here();
  launch.job = job.id;
  launch.task = job.task;
  launch.tasks = job.tasks;
  launch.attempt = job.restarts;
  std::string rank = job.task ? fmt::format("task {}", *job.task) : environment("RANK");
  launch.place = job.task       ? rank
                 : rank.empty() ? launch.facts.host
                                : launch.facts.host + " " + rank;
  return launch;
}

// All tasks of a job use the same name. If our task has already ended well in that directory, it is
// an earlier run of the same job, and this run gets the next number.
std::string job_directory(const std::string& base, const LaunchFile& launch) {
  std::string directory = base;
  for (int i = 2; i < 10000 && has_finished(directory, launch); ++i) {
    directory = fmt::format("{}-{}", base, i);
  }
  return directory;
}

}  // namespace

Result<RunPlaces> create_run(const std::string& directory,
                             const std::vector<std::string>& command) {
  RunPlaces places;
  std::string folder_name =
      fmt::format("{}-{}-{}", time_name(), getpid(), monotonic_ns() % 1'000'000'000);
  places.region_folder = MFU_TRY(create_region_folder(folder_name, places.notes));
  places.spare_folder = create_spare_folder(folder_name, places.region_folder);
  Job job = job_of_environment();
  LaunchFile launch = launch_of(command, job);
  places.start_ticks = launch.start_ticks;
  launch.region_folder = places.region_folder;
  launch.spare_folder = places.spare_folder;
  std::string name = name_of_command(command) + "-" + (job.id.empty() ? time_name() : job.id);
  places.directory = directory.empty() ? "mfu-runs/" + name : directory;
  std::error_code error;
  places.directory = fs::absolute(places.directory, error).lexically_normal().string();
  if (directory.empty() && !job.id.empty()) {
    places.directory = job_directory(places.directory, launch);
  } else if (directory.empty() && fs::exists(places.directory, error)) {
    places.directory += fmt::format("-{}", getpid());
  }
  places.run = fs::path(places.directory).filename().string();
  Result<void> opened = open_directory(places, launch);
  if (opened.has_value()) return places;
  std::string folder = MFU_TRY(spare_folder(places.notes));
  places.directory = fmt::format("{}/{}-{}", folder, name, getpid());
  places.notes.push_back(
      fmt::format("{}; the run is kept in {} instead", opened.error().message, places.directory));
  MFU_TRY(open_directory(places, launch));
  return places;
}

}  // namespace mfu
