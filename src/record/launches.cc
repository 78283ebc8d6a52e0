// The files that launchers leave in a run directory. Each launcher writes only its own.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "base/file.h"
#include "base/json.h"
#include "base/secrets.h"
#include "record/drain.h"
#include "record/region_file.h"
#include "record/run_folder.h"

namespace mfu {

namespace {

constexpr std::string_view kSchema = "mfu.run-directory/1";
constexpr std::uint64_t kMostTasks = 10'000'000;

std::string launch_text(const LaunchFile& launch) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).strings("command", launch.facts.command);
  json.member("host", launch.facts.host).member("pid", launch.pid);
  json.member("start_ticks", launch.start_ticks).member("place", launch.place);
  json.member("attempt", std::uint64_t{launch.attempt});
  if (!launch.pids.empty()) json.member("pids", launch.pids);
  if (!launch.job.empty()) json.member("job", launch.job);
  if (launch.task) json.member("task", std::uint64_t{*launch.task});
  if (launch.tasks) json.member("tasks", std::uint64_t{*launch.tasks});
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
  json.member("region_folder", launch.region_folder);
  json.member("spare_folder", launch.spare_folder).end_object();
  return json.text() + "\n";
}

std::vector<LaunchFile> launches_in(const std::string& directory) {
  std::vector<LaunchFile> launches;
  for (const std::string& name : launch_files(directory)) {
    Result<LaunchFile> launch = read_launch(directory + "/" + name);
    if (!launch.has_value()) continue;
    launch.value().file = name;
    launches.push_back(std::move(launch).value());
  }
  return launches;
}

bool ended_well(const LaunchFile& launch) {
  return launch.facts.ended && launch.facts.exit_status.value_or(0) == 0;
}

// Makes a file, and fails if somebody else has made it. The text is written to another file that is
// then linked, so that no reader sees half of it. If the file system has no links (some network
// file systems), the file is made exclusively and then written.
bool create_exclusively(const std::string& path, const std::string& own, const std::string& text) {
  if (link(own.c_str(), path.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) return false;
  bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return written;
}

}  // namespace

std::string pids_here() {
  std::array<char, 64> link{};
  ssize_t size = readlink("/proc/self/ns/pid", link.data(), link.size());
  Result<std::string> boot = read_file("/proc/sys/kernel/random/boot_id", 64);
  if (size <= 0 || !boot.has_value()) return {};
  return fmt::format("{} {}", boot->substr(0, boot->find('\n')),
                     std::string_view(link.data(), static_cast<std::size_t>(size)));
}

bool is_over(const LaunchFile& launch) {
  if (launch.facts.ended) return true;
  if (launch.facts.host != host_name()) return false;
  if (!launch.pids.empty() && launch.pids != pids_here()) return false;
  std::uint64_t ticks = process_start_ticks(static_cast<std::uint32_t>(launch.pid));
  return ticks == 0 || (launch.start_ticks != 0 && ticks != launch.start_ticks);
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
  launch.start_ticks = count_of("start_ticks").value_or(0);
  launch.region_folder = text_of("region_folder");
  launch.spare_folder = text_of("spare_folder");
  launch.job = text_of("job");
  launch.place = text_of("place");
  launch.pids = text_of("pids");
  auto small_of = [&](const char* name) -> std::optional<std::uint32_t> {
    std::optional<std::uint64_t> count = count_of(name);
    if (!count || *count > kMostTasks) return std::nullopt;
    return static_cast<std::uint32_t>(*count);
  };
  launch.attempt = small_of("attempt").value_or(0);
  launch.task = small_of("task");
  launch.tasks = small_of("tasks");
  return launch;
}

Standing standing_in(const std::string& directory, const LaunchFile& mine) {
  std::vector<LaunchFile> launches = launches_in(directory);
  Standing standing{.attempt = mine.attempt};
  if (launches.empty()) return standing;
  std::uint32_t last = 0, under_way = 0, mine_next = 0;
  bool all_over = true, same_job = false, been_here = false;
  for (const LaunchFile& each : launches) {
    // Each place has only one launcher. A container that is started again has other pids. If either
    // file does not say whose pids it has, we check whether the process is alive, as usual.
    bool other_pids = each.facts.host == mine.facts.host && !each.pids.empty() &&
                      !mine.pids.empty() && each.pids != mine.pids;
    bool over = is_over(each) || (other_pids && each.place == mine.place);
    all_over = all_over && over;
    last = std::max(last, each.attempt);
    if (!over) under_way = std::max(under_way, each.attempt);
    same_job = same_job || (!mine.job.empty() && each.job == mine.job);
    if (!over || each.place != mine.place) continue;
    been_here = true;
    mine_next = std::max(mine_next, each.attempt + 1);
    if (!each.facts.ended && each.facts.host == mine.facts.host) {
      standing.leftovers.push_back(each.region_folder);
      if (!each.spare_folder.empty()) standing.leftovers.push_back(each.spare_folder);
    }
  }
  // Join the run if some of its launchers still run, or if it is our job and our task is new in it.
  if (!all_over || (same_job && !been_here)) {
    standing.attempt = std::max({mine.attempt, all_over ? last : under_way, mine_next});
    return standing;
  }
  bool failed = std::any_of(launches.begin(), launches.end(), [&](const LaunchFile& each) {
    return each.attempt == last && !ended_well(each);
  });
  bool same_command = launches.front().facts.command == mine.facts.command;
  if (mine.attempt > last || (failed && same_command)) {
    standing.attempt = std::max(mine.attempt, last + 1);
    return standing;
  }
  return {.aside = true, .attempt = mine.attempt, .leftovers = {}};
}

bool has_finished(const std::string& directory, const LaunchFile& mine) {
  std::vector<LaunchFile> launches = launches_in(directory);
  return std::any_of(launches.begin(), launches.end(), [&](const LaunchFile& each) {
    return each.place == mine.place && each.attempt >= mine.attempt && ended_well(each);
  });
}

Result<void> put_aside(const std::string& directory) {
  std::error_code error;
  std::string aside;
  for (int i = 1; i < 100000; ++i) {
    aside = fmt::format("{}/earlier-{}", directory, i);
    if (!std::filesystem::exists(aside, error)) break;
  }
  std::filesystem::create_directory(aside, error);
  for (const char* ending : {".steps", ".json", ".txt"}) {
    for (const std::string& name : names_in(directory, ending)) {
      if (!error) std::filesystem::rename(directory + "/" + name, aside + "/" + name, error);
    }
  }
  if (error) return fail(ErrorCode::io, fmt::format("{}: {}", directory, error.message()));
  return {};
}

Result<std::string> add_launch(const std::string& directory, const LaunchFile& launch) {
  std::string text = launch_text(launch);
  std::string stem = fmt::format("{}-{}", launch.facts.host, launch.pid);
  std::string own = fmt::format("{}/.run-{}-{}", directory, stem, monotonic_ns());
  MFU_TRY(write_file(own, text));
  std::string path = directory + "/run.json";
  bool made = create_exclusively(path, own, text);
  for (int i = 1; i < 1000 && !made; ++i) {  // the system may give a pid out again
    path = fmt::format("{}/run-{}{}.json", directory, stem, i == 1 ? "" : fmt::format("-{}", i));
    made = create_exclusively(path, own, text);
  }
  unlink(own.c_str());
  if (!made) return fail(ErrorCode::io, fmt::format("{}: cannot be made", path));
  return path;
}

namespace {

Result<void> close_launch(const RunPlaces& places, const std::optional<RunEnd>& end) {
  LaunchFile launch = MFU_TRY(read_launch(places.file));
  launch.facts.ended = std::chrono::nanoseconds(static_cast<std::int64_t>(realtime_ns()));
  if (end) {
    launch.facts.exit_status = end->status;
    launch.facts.signal = end->signal;
  }
  return write_file(places.file, launch_text(launch));
}

}  // namespace

Result<void> close_run(const RunPlaces& places, const RunEnd& end) {
  return close_launch(places, end);
}

Result<void> close_run(const RunPlaces& places) {
  return close_launch(places, std::nullopt);
}

std::vector<Launcher> launchers_of(const std::string& directory) {
  std::vector<LaunchFile> launches = launches_in(directory);
  std::vector<Launcher> launchers;
  for (const LaunchFile& each : launches) {
    Launcher launcher{.host = each.facts.host,
                      .pid = each.pid,
                      .attempt = each.attempt,
                      .task = each.task,
                      .tasks = each.tasks,
                      .started = each.facts.started,
                      .ended = each.facts.ended,
                      .exit_status = each.facts.exit_status,
                      .signal = each.facts.signal,
                      .file = each.file,
                      .region_folder = each.region_folder,
                      .spare_folder = each.spare_folder,
                      .over = is_over(each)};
    launcher.superseded =
        std::any_of(launches.begin(), launches.end(), [&](const LaunchFile& other) {
          return other.place == each.place && other.attempt > each.attempt;
        });
    launchers.push_back(std::move(launcher));
  }
  auto key = [](const Launcher& each) {
    return std::tuple(each.attempt, each.task.value_or(~0u), each.host, each.started, each.pid);
  };
  std::sort(launchers.begin(), launchers.end(),
            [&](const Launcher& a, const Launcher& b) { return key(a) < key(b); });
  return launchers;
}

}  // namespace mfu
