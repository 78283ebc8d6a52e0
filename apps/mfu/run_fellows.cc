#include "run_fellows.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <tuple>

#include "record/drain.h"

namespace mfu::app {

namespace {

using std::chrono::steady_clock;

constexpr auto kFellowPatience = std::chrono::seconds(30);
constexpr auto kLookEvery = std::chrono::milliseconds(250);

std::string file_name(const RunPlaces& places) {
  return std::filesystem::path(places.file).filename().string();
}

// This launcher's own entry. None if its file cannot be read.
std::optional<Launcher> myself(const RunPlaces& places, const std::vector<Launcher>& launchers) {
  for (const Launcher& each : launchers) {
    if (each.file == file_name(places)) return each;
  }
  return std::nullopt;
}

// Whether this launcher was killed or replaced. It will never print.
bool is_lost(const Launcher& each) {
  return each.superseded || (each.over && !each.ended);
}

std::optional<std::uint32_t> lowest_rank(const RunRecord& record, bool own,
                                         const std::set<std::string>& lost_hosts) {
  std::optional<std::uint32_t> lowest;
  for (const ProcessRecord& each : record.processes) {
    if (each.own != own || !each.rank || lost_hosts.contains(each.host)) continue;
    if (!lowest || *each.rank < *lowest) lowest = each.rank;
  }
  return lowest;
}

// The launcher of the lowest rank prints. If ranks are not known, the one that started first does.
bool is_first(const RunRecord& record, const Launcher& me, const std::vector<Launcher>& launchers) {
  std::set<std::string> lost_hosts;
  bool tasks = me.task.has_value();
  for (const Launcher& each : launchers) {
    if (each.file == me.file) continue;
    if (is_lost(each)) lost_hosts.insert(each.host);
    tasks = tasks && (each.task || is_lost(each));
  }
  for (const Launcher& each : launchers) {
    if (!is_lost(each) || each.file == me.file) lost_hosts.erase(each.host);
  }
  std::optional<std::uint32_t> mine = lowest_rank(record, true, lost_hosts);
  std::optional<std::uint32_t> others = lowest_rank(record, false, lost_hosts);
  if (!tasks && others) return mine && *mine <= *others;
  if (!tasks && mine) return true;
  auto key = [](const Launcher& each) {
    return std::tuple(each.task.value_or(~0u), each.started, each.host, each.pid);
  };
  return std::all_of(launchers.begin(), launchers.end(), [&](const Launcher& each) {
    return each.file == me.file || is_lost(each) || key(me) < key(each);
  });
}

bool all_have_ended(const std::vector<Launcher>& launchers, const Launcher& me) {
  std::uint32_t places = 0, tasks = me.tasks.value_or(0);
  for (const Launcher& each : launchers) {
    if (each.superseded) continue;
    ++places;
    if (each.file != me.file && !each.over) return false;
  }
  return places >= tasks;
}

void write_own_summary(const RunPlaces& places, const Launcher& me, const std::string& json) {
  std::string stem =
      me.file.starts_with("run-") ? me.file.substr(4) : fmt::format("{}-{}.json", me.host, me.pid);
  std::ofstream file(places.directory + "/summary-" + stem, std::ios::trunc);
  file << json << '\n';
}

RunRecord own_part(const RunRecord& record) {
  RunRecord mine = record;
  std::erase_if(mine.processes, [](const ProcessRecord& each) { return !each.own; });
  return mine;
}

}  // namespace

bool speaks_for_all(const RunPlaces& places, RunRecord& record,
                    const std::function<std::string(const RunRecord& mine)>& json) {
  std::vector<Launcher> launchers = launchers_of(places.directory);
  std::optional<Launcher> me = myself(places, launchers);
  if (!me || (launchers.size() < 2 && me->tasks.value_or(1) < 2)) return true;
  RunRecord mine = own_part(record);
  mine.launchers = {*me};
  mine.launchers[0].tasks.reset();
  write_own_summary(places, *me, json(mine));
  Result<RunRecord> all = read_run(places.directory);
  mine = own_part(record);
  RunRecord joined = mine;
  if (all.has_value()) join_records(joined, *all);
  if (!is_first(joined, *me, launchers)) return false;
  auto until = steady_clock::now() + kFellowPatience;
  while (!all_have_ended(launchers, *me) && steady_clock::now() < until) {
    std::this_thread::sleep_for(kLookEvery);
    launchers = launchers_of(places.directory);
  }
  all = read_run(places.directory);
  if (all.has_value()) join_records(mine, std::move(all).value());
  record = std::move(mine);
  return true;
}

RunPlaces places_of_launch(const std::string& directory, const std::string& region_folder) {
  RunPlaces places{directory, region_folder, directory + "/run.json", {}};
  for (const Launcher& each : launchers_of(directory)) {
    if (each.region_folder != region_folder) continue;
    places.file = directory + "/" + each.file;
    places.spare_folder = each.spare_folder;
    places.attempt = each.attempt;
  }
  return places;
}

}  // namespace mfu::app
