#include "record/drain.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>

#include "record/codec.h"
#include "record/frames.h"
#include "record/patient_file.h"
#include "record/region_file.h"
#include "record/region_open.h"
#include "record/run_folder.h"

namespace mfu {

namespace {

constexpr std::size_t kMostPendingBytes = 64u << 20;  // kept in memory, for all files together
constexpr std::size_t kRecentSteps = 64;
constexpr std::uint64_t kWindowNs = 10'000'000'000;  // of a process without steps
constexpr std::uint64_t kTotalsEveryNs = 30'000'000'000;
constexpr std::uint64_t kQuietNs = 5'000'000'000;  // a dead process's region is kept so long

// One process whose region was seen.
struct Drained {
  std::string region_path;
  std::optional<OpenRegion> region;  // none if its process is dead and the region was removed
  PatientFile file;
  ProcessRecord recent;                       // its last steps, for a live view
  std::string status, facts, totals, phases;  // as last written
  std::uint64_t totals_ns = 0;                // when
  std::uint64_t window_ns = 0;                // start of the window under way
  std::string window = std::string(2, 0);     // the sums that the last one was written with
  std::uint64_t dead_since_ns = 0;

  Drained(std::string from, OpenRegion mapped, const std::string& to)
      : region_path(std::move(from)), region(std::move(mapped)), file(to) {}
};

bool is_alive(const RegionHeader& header) {
  return process_start_ticks(header.pid) == header.process_start_ticks;
}

// Appends a frame if its content has changed since it was last written.
void append_changed(std::string& frames, FrameKind kind, std::string payload, std::string& last) {
  if (payload == last) return;
  append_frame(frames, kind, payload);
  last = std::move(payload);
}

void keep_recent(Drained& process, const std::string& frames) {
  std::vector<std::string> none;
  decode_process(std::string(kFileMagic) + frames, "", process.recent, none);
  std::vector<Step>& steps = process.recent.steps;
  if (steps.size() > kRecentSteps) {
    steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(kRecentSteps));
  }
  std::vector<WindowRecord>& windows = process.recent.windows;
  if (windows.size() > 2) windows.erase(windows.begin(), windows.end() - 2);
}

// A process without steps gets windows instead. If nothing happened in a window, none is written.
void take_window(Drained& process, std::string& frames, std::uint64_t now, bool everything) {
  const Region& region = process.region->region();
  if (region.header.step_head.load(std::memory_order_relaxed) != 0) return;
  if (process.window_ns == 0) process.window_ns = region.header.start_monotonic_ns;
  if (!everything && now - process.window_ns < kWindowNs) return;
  std::string sums = window_payload(region, 0, 0);
  if (sums != process.window) {
    append_frame(frames, FrameKind::window, window_payload(region, process.window_ns, now));
  }
  process.window = std::move(sums);
  process.window_ns = now;
}

// Takes what is new in one region. A record is marked as drained once it is on the disk; if the
// disk refuses, once it is in our memory. So if the drainer is killed, the record is still in the
// region.
void take(Drained& process, bool everything, bool room) {
  process.region->refresh();
  const Region& region = process.region->region();
  std::string frames;
  if (process.recent.host.empty()) {
    // A launcher that was killed may have started this file already.
    if (process.file.is_new()) process.file.add(kFileMagic);
    append_frame(frames, FrameKind::process, process_payload(region.header));
  }
  std::uint64_t tail = region.header.step_tail.load(std::memory_order_relaxed);
  std::uint64_t head = region.header.step_head.load(std::memory_order_acquire);
  if (head < tail || head - tail > kRegionSteps) head = tail;  // damaged
  if (!room) head = tail;
  append_steps(frames, region, tail, head);
  std::uint64_t now = monotonic_ns();
  if (everything || now - process.totals_ns >= kTotalsEveryNs) {
    append_changed(frames, FrameKind::totals, totals_payload(region), process.totals);
    append_changed(frames, FrameKind::phases, phases_payload(region), process.phases);
    process.totals_ns = now;
  }
  take_window(process, frames, now, everything);
  append_changed(frames, FrameKind::facts, facts_payload(region), process.facts);
  append_changed(frames, FrameKind::status, status_payload(region.header), process.status);
  if (!frames.empty()) {
    keep_recent(process, frames);
    process.file.add(frames);
  }
  process.file.flush();
  process.region->set_tail(head);
}

std::string note_path(const RunPlaces& places, const std::string& name) {
  return places.directory + "/note-" + host_name() + "-" + name;
}

}  // namespace

struct Drainer::State {
  RunPlaces places;
  std::map<std::string, Drained> processes;  // by the stem of the file's name
  std::vector<std::string> damage;
  int lock = -1;
  std::uint64_t requests = 0;

  bool owns();
  std::vector<std::string> folders() const;
  void look_for_new();
  void grant_wishes();
  std::size_t pending_bytes() const;
  void remove(Drained& process);
};

// Only one drainer may use a folder. A second one would take records that the first is writing.
bool Drainer::State::owns() {
  if (lock < 0) {
    lock = open((places.region_folder + "/.drainer").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  }
  if (lock < 0) return false;
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) return true;
  // On a file system without locks we go on: a folder has only one launcher anyway.
  return errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP || errno == EINVAL;
}

std::vector<std::string> Drainer::State::folders() const {
  std::vector<std::string> folders = {places.region_folder};
  if (!places.spare_folder.empty()) folders.push_back(places.spare_folder);
  folders.insert(folders.end(), places.leftovers.begin(), places.leftovers.end());
  return folders;
}

void Drainer::State::look_for_new() {
  for (const std::string& folder : folders()) {
    for (const std::string& name : names_in(folder, ".region")) {
      std::string stem = name.substr(0, name.size() - 7);
      if (processes.contains(stem)) continue;
      std::string path = folder + "/" + name;
      Result<OpenRegion> region = OpenRegion::open(path);
      if (!region.has_value()) {
        if (std::find(damage.begin(), damage.end(), region.error().message) == damage.end()) {
          damage.push_back(region.error().message);
        }
        continue;
      }
      processes.try_emplace(stem, path, std::move(region).value(),
                            places.directory + "/" + stem + ".steps");
    }
  }
}

// Makes region files for processes that cannot: their limit on file sizes forbids it, but they may
// map a file that exists.
void Drainer::State::grant_wishes() {
  for (const std::string& name : names_in(places.region_folder, "")) {
    if (!name.starts_with(kWish)) continue;
    std::string pid = name.substr(kWish.size());
    std::string made = places.region_folder + "/.new-" + pid;
    int file = open(made.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    bool whole = file >= 0 && posix_fallocate(file, 0, sizeof(Region)) == 0;
    if (file >= 0) close(file);
    if (whole) {
      std::string granted = places.region_folder + "/" + std::string(kBlank) + pid;
      std::rename(made.c_str(), granted.c_str());
    } else {
      unlink(made.c_str());
    }
    unlink((places.region_folder + "/" + name).c_str());
  }
}

std::size_t Drainer::State::pending_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [stem, process] : processes) bytes += process.file.pending().size();
  return bytes;
}

void Drainer::State::remove(Drained& process) {
  unlink(process.region_path.c_str());
  process.region.reset();
}

Drainer::Drainer(RunPlaces places) : state_(std::make_unique<State>()) {
  state_->places = std::move(places);
}

Drainer::~Drainer() {
  if (state_->lock >= 0) close(state_->lock);
}

bool Drainer::drain() {
  if (!state_->owns()) return false;
  state_->grant_wishes();
  state_->look_for_new();
  bool room = state_->pending_bytes() < kMostPendingBytes;
  bool any_alive = false;
  std::uint64_t now = monotonic_ns();
  for (auto& [stem, process] : state_->processes) {
    if (!process.region) {
      process.file.flush();
      continue;
    }
    process.region->refresh();
    const RegionHeader& header = process.region->region().header;
    bool alive = is_alive(header);
    any_alive = any_alive || alive;
    std::uint64_t head = header.step_head.load(std::memory_order_relaxed);
    if (alive || head != header.step_tail.load(std::memory_order_relaxed)) {
      process.dead_since_ns = 0;
    } else if (process.dead_since_ns == 0) {
      process.dead_since_ns = now;
    }
    bool over = process.dead_since_ns != 0 && now - process.dead_since_ns > kQuietNs;
    take(process, over, room);
    if (over && process.file.pending().empty()) state_->remove(process);
  }
  return any_alive;
}

void Drainer::finish() {
  if (!state_->owns()) return;
  state_->look_for_new();
  bool empty = true;
  for (auto& [stem, process] : state_->processes) {
    if (process.region) {
      take(process, true, true);
      bool gone = !is_alive(process.region->region().header);
      if (gone && process.file.pending().empty()) state_->remove(process);
    }
    empty = empty && !process.region;
  }
  std::error_code ignored;
  for (const std::string& folder : state_->folders()) {
    for (const std::string& name : names_in(folder, ".txt")) {
      if (!name.starts_with("note-")) continue;
      std::string from = folder + "/" + name;
      std::filesystem::copy_file(from, note_path(state_->places, name.substr(5)), ignored);
      std::filesystem::remove(from, ignored);
    }
    if (empty) std::filesystem::remove_all(folder, ignored);
  }
}

RunRecord Drainer::record() const {
  RunRecord record;
  std::vector<std::string> damage = state_->damage;
  Result<RunRecord> others = read_run(state_->places.directory);
  for (const auto& [stem, process] : state_->processes) {
    ProcessRecord each;
    std::string bytes = process.file.whole();
    if (process.region) bytes += frames_of(process.region->region());
    decode_process(bytes, process.file.path(), each, damage);
    each.own = true;
    record.processes.push_back(std::move(each));
  }
  sort_processes(record.processes);
  record.partial = !damage.empty();
  record.notes = std::move(damage);
  // Processes of other launchers that write to the same directory.
  if (others.has_value()) join_records(record, std::move(others).value());
  return record;
}

void join_records(RunRecord& mine, RunRecord others) {
  mine.run = others.run;
  mine.launchers = std::move(others.launchers);
  mine.unobserved = std::move(others.unobserved);
  for (ProcessRecord& each : others.processes) {
    auto same = [&](const ProcessRecord& known) {
      return known.pid == each.pid && known.host == each.host && known.started == each.started;
    };
    if (std::none_of(mine.processes.begin(), mine.processes.end(), same)) {
      mine.processes.push_back(std::move(each));
    }
  }
  sort_processes(mine.processes);
}

RunRecord Drainer::recent() const {
  RunRecord record;
  for (const auto& [stem, process] : state_->processes) {
    ProcessRecord each = process.recent;
    if (process.region) {
      // Totals are written to the file only now and then, but a live view needs the current ones.
      std::string frames(kFileMagic);
      append_frame(frames, FrameKind::totals, totals_payload(process.region->region()));
      append_frame(frames, FrameKind::phases, phases_payload(process.region->region()));
      std::vector<std::string> none;
      decode_process(frames, "", each, none);
    }
    record.processes.push_back(std::move(each));
  }
  sort_processes(record.processes);
  return record;
}

std::vector<std::uint32_t> Drainer::ask_profile(std::uint64_t steps) {
  constexpr std::int32_t kFirstRanks = 8;
  constexpr std::int64_t kAheadNs = 300'000'000;  // every process has seen it by then
  std::vector<OpenRegion*> asked;
  std::vector<std::uint32_t> pids;
  std::uint64_t last = 0;
  std::int64_t shortest_ns = kAheadNs;
  for (auto& [stem, process] : state_->processes) {
    if (!process.region) continue;
    const RegionHeader& header = process.region->region().header;
    std::uint64_t head = header.step_head.load(std::memory_order_relaxed);
    if (head == 0 || !is_alive(header) || header.rank.load() >= kFirstRanks) continue;
    last = std::max(last, head);
    for (const Step& step : process.recent.steps) {
      if (step.sequence > 0) shortest_ns = std::min(shortest_ns, step.duration().count());
    }
    asked.push_back(&*process.region);
    pids.push_back(header.pid);
  }
  std::uint64_t ahead = 0;
  if (asked.size() > 1) {
    ahead = std::min<std::uint64_t>(
        0x7000, static_cast<std::uint64_t>(kAheadNs / std::max<std::int64_t>(shortest_ns, 1)) + 2);
  }
  ++state_->requests;
  std::uint64_t word = state_->requests << 32 |
                       static_cast<std::uint64_t>(RequestKind::profile) << 24 |
                       ((last + ahead) & 0xFFFF) << 8 | std::min<std::uint64_t>(steps, 255);
  for (OpenRegion* region : asked) region->request(word);
  return pids;
}

std::vector<std::string> Drainer::problems() const {
  std::vector<std::string> problems;
  for (const auto& [stem, process] : state_->processes) {
    if (!process.file.problem().empty()) problems.push_back(process.file.problem());
  }
  return problems;
}

}  // namespace mfu
