#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "base/in_order.h"
#include "record/codec.h"
#include "record/frames.h"
#include "record/region_file.h"
#include "record/region_open.h"
#include "record/run_folder.h"

namespace mfu {

namespace {

constexpr std::uint64_t kMostFileBytes = 1u << 30;  // of a process: some ten million steps

// Where the frames of a process are: on disk and in memory. Sources are keyed by the file's stem.
struct Source {
  std::string file;    // its path; empty: there is none
  std::string region;  // frames
  Lateness late;       // of its steps
};
struct Sources {
  std::map<std::string, Source> places;
  std::vector<std::string> damage;
};

// Call it after add_regions(). A step that is drained in between is then in both, not in neither.
void add_files(const std::string& directory, Sources& sources) {
  for (const std::string& name : names_in(directory, ".steps")) {
    sources.places[name.substr(0, name.size() - 6)].file = directory + "/" + name;
  }
}

// Magic and frames. None if there is nothing to read; `damage` then says why.
std::optional<std::string> bytes_of(const Source& source, std::vector<std::string>& damage) {
  std::string bytes(kFileMagic);
  if (!source.file.empty()) {
    Result<std::string> file = read_file(source.file, kMostFileBytes);
    if (!file.has_value()) damage.push_back(file.error().message);
    if (!file.has_value() && source.region.empty()) return std::nullopt;
    if (file.has_value() && !file->empty()) bytes = std::move(file).value();
  }
  bytes += source.region;
  return bytes;
}

// Adds what processes of this machine hold in memory, or left there when they were killed.
void add_regions(const std::string& folder, Sources& sources) {
  for (const std::string& name : names_in(folder, ".region")) {
    Result<std::unique_ptr<Region>> region = copy_region(folder + "/" + name);
    if (!region.has_value()) {
      sources.damage.push_back(region.error().message);
      continue;
    }
    sources.places[name.substr(0, name.size() - 7)].region = frames_of(*region.value());
  }
}

// Several launchers are one run. It lasts from the first start to the last end, which is unknown
// while one of them runs. The last attempt tells how it ended; a failure counts before a success.
void merge_facts(RunFacts& run, const RunFacts& more, std::uint32_t attempt, std::uint32_t last) {
  bool first = run.host.empty();
  if (first || (more.started && (!run.started || *more.started < *run.started))) {
    run.started = more.started;
  }
  if (first) {
    run.command = more.command;
    run.host = more.host;
  }
  if (attempt != last) return;
  run.ended = run.ended && more.ended ? std::max(run.ended, more.ended)
              : run.ended             ? run.ended
                                      : more.ended;
  if (more.exit_status && run.exit_status.value_or(0) == 0) {
    run.exit_status = more.exit_status;
    run.signal = more.signal;
  }
}

}  // namespace

bool comes_before(const ProcessRecord& a, const ProcessRecord& b) {
  auto key = [](const ProcessRecord& each) {
    return std::tuple(each.rank.value_or(~0u), each.host, each.started, each.pid);
  };
  return key(a) < key(b);
}

void sort_processes(std::vector<ProcessRecord>& processes) {
  std::sort(processes.begin(), processes.end(), comes_before);
}

namespace {

// Everything about a run except the content of its processes' files.
Result<RunRecord> find_run(const std::string& directory, Sources& sources) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    return fail(ErrorCode::not_found,
                fmt::format("{}: there is no such run directory (mfu run makes one)", directory));
  }
  RunRecord record;
  std::vector<std::string> launches = launch_files(directory);
  std::uint32_t last_attempt = 0;
  record.launchers = launchers_of(directory);
  for (const Launcher& each : record.launchers) last_attempt = std::max(last_attempt, each.attempt);
  for (const std::string& name : launches) {
    Result<LaunchFile> launch = read_launch(directory + "/" + name);
    if (!launch.has_value()) {
      sources.damage.push_back(launch.error().message);
      continue;
    }
    merge_facts(record.run, launch->facts, launch->attempt, last_attempt);
    if (launch->facts.host != host_name()) continue;
    for (const std::string& folder : {launch->region_folder, launch->spare_folder}) {
      if (folder.empty()) continue;
      add_regions(folder, sources);
      for (std::string& note : process_notes(folder)) {
        record.unobserved.push_back(std::move(note));
      }
    }
  }
  for (const Launcher& each : record.launchers) {
    if (each.attempt == last_attempt && !each.over) record.run.ended.reset();
  }
  for (std::string& note : process_notes(directory)) record.unobserved.push_back(std::move(note));
  add_files(directory, sources);
  if (launches.empty() && sources.places.empty()) {
    return fail(
        ErrorCode::malformed,
        fmt::format("{}: holds no run: neither run.json nor a .steps file is there", directory));
  }
  return record;
}

// The steps of a process in order, each once.
Result<void> read_steps(const Source& source,
                        const std::function<Result<void>(const Step&)>& take) {
  Result<void> taken;
  std::optional<std::uint64_t> last;
  InOrder<Step> order(source.late.window(), [&](Step step) {
    if (std::exchange(last, step.sequence) == step.sequence || !taken.has_value()) return;
    taken = take(step);
  });
  ProcessRecord process;
  std::vector<std::string> damage;  // ignored, because open_run() has reported it
  std::optional<std::string> bytes = bytes_of(source, damage);
  if (!bytes) return {};
  decode_process(*bytes, "", process, damage, [&](Step step) {
    std::uint64_t sequence = step.sequence;
    order.add(sequence, std::move(step));
  });
  order.finish();
  return taken;
}

}  // namespace

Result<RunRecord> read_run(const std::string& directory) {
  Sources sources;
  RunRecord record = MFU_TRY(find_run(directory, sources));
  for (const auto& [stem, source] : sources.places) {
    std::optional<std::string> bytes = bytes_of(source, sources.damage);
    if (!bytes) continue;
    ProcessRecord process;
    decode_process(*bytes, directory + "/" + stem + ".steps", process, sources.damage);
    record.processes.push_back(std::move(process));
  }
  sort_processes(record.processes);
  record.partial = !sources.damage.empty();
  record.notes = std::move(sources.damage);
  return record;
}

Result<RunSteps> open_run(const std::string& directory) {
  Sources sources;
  RunRecord record = MFU_TRY(find_run(directory, sources));
  std::vector<std::pair<ProcessRecord, Source>> found;
  for (auto& [stem, source] : sources.places) {
    std::optional<std::string> bytes = bytes_of(source, sources.damage);
    if (!bytes) continue;
    ProcessRecord process;
    decode_process(*bytes, directory + "/" + stem + ".steps", process, sources.damage,
                   [&](const Step& step) {
                     source.late.see(step.sequence);
                     process.last = std::max(process.last, step.end);
                   });
    found.emplace_back(std::move(process), std::move(source));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return comes_before(a.first, b.first); });
  auto places = std::make_shared<std::vector<Source>>();
  for (auto& [process, source] : found) {
    record.processes.push_back(std::move(process));
    places->push_back(std::move(source));
  }
  record.partial = !sources.damage.empty();
  record.notes = std::move(sources.damage);
  auto read = [places](const TakeRunStep& take) -> Result<void> {
    for (std::size_t i = 0; i < places->size(); ++i) {
      MFU_TRY(read_steps((*places)[i], [&](const Step& step) { return take(i, step); }));
    }
    return {};
  };
  return RunSteps{.record = std::move(record), .read = std::move(read)};
}

}  // namespace mfu
