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
#include "base/json.h"
#include "base/secrets.h"
#include "base/text.h"
#include "record/region_file.h"
#include "record/region_open.h"

namespace mfu {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSchema = "mfu.run-directory/1";
constexpr std::uint64_t kRoomBytes = 32u << 20;        // what a region folder should have free
constexpr auto kKeepFor = std::chrono::hours(7 * 24);  // regions that nobody came back for

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

std::string launch_text(const LaunchFile& launch) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).strings("command", launch.facts.command);
  json.member("host", launch.facts.host).member("pid", launch.pid);
  auto time = [&](const char* name, const std::optional<std::chrono::nanoseconds>& when) {
    json.key(name);
    if (when) {
      json.value(static_cast<std::uint64_t>(when->count()));
    } else {
      json.null();
    }
  };
  time("started_ns", launch.facts.started);
  time("ended_ns", launch.facts.ended);
  json.key("exit_status");
  if (launch.facts.exit_status) {
    json.value(static_cast<std::uint64_t>(*launch.facts.exit_status));
  } else {
    json.null();
  }
  if (launch.facts.signal) {
    json.member("signal", static_cast<std::uint64_t>(*launch.facts.signal));
  }
  json.member("region_folder", launch.region_folder).end_object();
  return json.text() + "\n";
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

// Where regions go: memory-backed if there is such a folder with room.
Result<std::string> create_region_folder(std::vector<std::string>& notes) {
  std::vector<std::string> bases = {"/dev/shm", environment("XDG_RUNTIME_DIR"),
                                    environment("TMPDIR"), "/tmp"};
  for (const std::string& base : bases) {
    struct statvfs room{};
    if (base.empty() || statvfs(base.c_str(), &room) != 0) continue;
    if (std::uint64_t{room.f_bavail} * room.f_frsize < kRoomBytes) continue;
    std::string mine = fmt::format("{}/mfu-{}", base, getuid());
    Result<void> ours = make_own_folder(mine);
    if (!ours.has_value()) {
      notes.push_back(ours.error().message);
      continue;
    }
    remove_forgotten(mine);
    std::string folder =
        fmt::format("{}/{}-{}-{}", mine, time_name(), getpid(), monotonic_ns() % 1'000'000'000);
    if (!make_own_folder(folder).has_value()) continue;
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

// A launcher that is over: it said so, or it was on this machine and is not there any more.
bool is_over(const LaunchFile& launch) {
  if (launch.facts.ended) return true;
  return launch.facts.host == host_name() &&
         process_start_ticks(static_cast<std::uint32_t>(launch.pid)) == 0;
}

// An earlier run in the same directory steps aside, whole.
Result<void> put_earlier_aside(const std::string& directory) {
  std::vector<std::string> launches = launch_files(directory);
  bool over = std::all_of(launches.begin(), launches.end(), [&](const std::string& name) {
    Result<LaunchFile> launch = read_launch(directory + "/" + name);
    return !launch.has_value() || is_over(*launch);
  });
  if (launches.empty() || !over) return {};
  std::error_code error;
  std::string aside;
  for (int i = 1; i < 100000; ++i) {
    aside = fmt::format("{}/earlier-{}", directory, i);
    if (!fs::exists(aside, error)) break;
  }
  fs::create_directory(aside, error);
  for (const char* ending : {".steps", ".json", ".txt"}) {
    for (const std::string& name : names_in(directory, ending)) {
      if (!error) fs::rename(directory + "/" + name, aside + "/" + name, error);
    }
  }
  if (error) return fail(ErrorCode::io, fmt::format("{}: {}", directory, error.message()));
  return {};
}

Result<void> open_directory(RunPlaces& places, LaunchFile& launch) {
  std::error_code error;
  fs::create_directories(places.directory, error);
  if (error) return fail(ErrorCode::io, fmt::format("{}: {}", places.directory, error.message()));
  MFU_TRY(put_earlier_aside(places.directory));
  places.file = places.directory + "/run.json";
  if (fs::exists(places.file, error)) {
    places.file = fmt::format("{}/run-{}-{}.json", places.directory, launch.facts.host, launch.pid);
  }
  return write_file(places.file, launch_text(launch));
}

// Where runs go whose own place cannot be written. One that somebody else laid out for us is not
// used: a new name, which nobody could know before, serves.
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

std::vector<std::string> launch_files(const std::string& directory) {
  std::vector<std::string> names = names_in(directory, ".json");
  std::erase_if(names, [](const std::string& name) {
    return name != "run.json" && !name.starts_with("run-");
  });
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name == "run.json"; });
  return names;
}

Result<LaunchFile> read_launch(const std::string& path) {
  std::string text = MFU_TRY(read_file(path, 16u << 20));
  Json json = MFU_TRY(parse_json(text, path));
  const Json* schema = json.find("schema");
  if (schema == nullptr || schema->string() == nullptr || *schema->string() != kSchema) {
    return fail(ErrorCode::malformed, fmt::format("{}: schema: '{}' was expected", path, kSchema));
  }
  LaunchFile launch;
  auto text_of = [&](const char* name) {
    const Json* member = json.find(name);
    return member != nullptr && member->string() != nullptr ? *member->string() : std::string();
  };
  auto count_of = [&](const char* name) -> std::optional<std::uint64_t> {
    const Json* member = json.find(name);
    return member == nullptr ? std::nullopt : member->count();
  };
  auto time_of = [&](const char* name) -> std::optional<std::chrono::nanoseconds> {
    std::optional<std::uint64_t> count = count_of(name);
    if (!count || *count >> 62 != 0) return std::nullopt;
    return std::chrono::nanoseconds(static_cast<std::int64_t>(*count));
  };
  if (const Json* command = json.find("command")) {
    for (const Json& word : command->elements()) {
      if (word.string() != nullptr) launch.facts.command.push_back(*word.string());
    }
    launch.facts.command = without_secrets(launch.facts.command);  // an older version kept all
  }
  launch.facts.host = text_of("host");
  launch.facts.started = time_of("started_ns");
  launch.facts.ended = time_of("ended_ns");
  if (auto status = count_of("exit_status"); status && *status < 1024) {
    launch.facts.exit_status = static_cast<int>(*status);
  }
  if (auto signal = count_of("signal"); signal && *signal < 128) {
    launch.facts.signal = static_cast<int>(*signal);
  }
  launch.pid = count_of("pid").value_or(0);
  launch.region_folder = text_of("region_folder");
  return launch;
}

Result<RunPlaces> create_run(const std::string& directory,
                             const std::vector<std::string>& command) {
  RunPlaces places;
  places.region_folder = MFU_TRY(create_region_folder(places.notes));
  LaunchFile launch;
  launch.facts.command = without_secrets(command);  // a directory is shared as it is
  launch.facts.host = host_name();
  launch.facts.started = std::chrono::nanoseconds(static_cast<std::int64_t>(realtime_ns()));
  launch.pid = static_cast<std::uint64_t>(getpid());
  launch.region_folder = places.region_folder;
  std::string name = name_of_command(command) + "-" + time_name();
  places.directory = directory.empty() ? "mfu-runs/" + name : directory;
  std::error_code error;
  if (directory.empty() && fs::exists(places.directory, error)) {
    places.directory += fmt::format("-{}", getpid());
  }
  places.directory = fs::absolute(places.directory, error).lexically_normal().string();
  Result<void> opened = open_directory(places, launch);
  if (opened.has_value()) return places;
  std::string folder = MFU_TRY(spare_folder(places.notes));
  places.directory = fmt::format("{}/{}-{}", folder, name, getpid());
  places.notes.push_back(
      fmt::format("{}; the run is kept in {} instead", opened.error().message, places.directory));
  MFU_TRY(open_directory(places, launch));
  return places;
}

Result<void> close_run(const RunPlaces& places, const RunEnd& end) {
  LaunchFile launch = MFU_TRY(read_launch(places.file));
  launch.facts.ended = std::chrono::nanoseconds(static_cast<std::int64_t>(realtime_ns()));
  launch.facts.exit_status = end.status;
  launch.facts.signal = end.signal;
  return write_file(places.file, launch_text(launch));
}

}  // namespace mfu
