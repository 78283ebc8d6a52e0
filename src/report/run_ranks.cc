#include "report/run_ranks.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace mfu {

namespace {

std::chrono::nanoseconds began(const ProcessRecord& process) {
  return process.started + process.realtime_offset;
}

std::chrono::nanoseconds ended(const ProcessRecord& process) {
  std::chrono::nanoseconds last = std::max(process.last, process.started);
  if (!process.steps.empty()) last = std::max(last, process.steps.back().end);
  return last + process.realtime_offset;
}

// The clocks of two nodes differ a little. A restart takes seconds.
constexpr std::chrono::milliseconds kClockTolerance{50};

bool follows(const ProcessRecord& later, const ProcessRecord& earlier) {
  return began(later) + kClockTolerance >= ended(earlier) && began(later) > began(earlier);
}

std::uint64_t restarts_of(const std::vector<const ProcessRecord*>& processes) {
  std::map<std::uint32_t, std::set<std::uint32_t>> attempts;  // by rank
  std::vector<const ProcessRecord*> stepping;
  for (const ProcessRecord* each : processes) {
    if (!each->rank) continue;
    attempts[*each->rank].insert(each->attempt);
    if (!each->steps.empty()) stepping.push_back(each);
  }
  std::map<std::uint32_t, std::uint64_t> seen;
  for (const std::vector<std::size_t>& chain : rank_chains(stepping)) {
    std::uint64_t& most = seen[*stepping[chain.front()]->rank];
    most = std::max<std::uint64_t>(most, chain.size() - 1);
  }
  std::uint64_t restarts = 0;
  for (const auto& [rank, numbers] : attempts) {
    restarts += std::max<std::uint64_t>(numbers.size() - 1, seen[rank]);
  }
  return restarts;
}

}  // namespace

std::vector<std::vector<std::size_t>> rank_chains(
    const std::vector<const ProcessRecord*>& processes) {
  std::vector<std::size_t> order(processes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto key = [&](std::size_t index) {  // processes without a rank stay where they are, at the end
    const ProcessRecord& each = *processes[index];
    return std::tuple(each.rank.value_or(~0u),
                      each.rank ? began(each) : std::chrono::nanoseconds(0), index);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  std::vector<std::vector<std::size_t>> chains;
  for (std::size_t index : order) {
    const ProcessRecord& process = *processes[index];
    auto goes_on = [&](const std::vector<std::size_t>& chain) {
      const ProcessRecord& before = *processes[chain.back()];
      return process.rank && before.rank == process.rank && follows(process, before);
    };
    auto found = std::find_if(chains.begin(), chains.end(), goes_on);
    if (found == chains.end()) {
      chains.push_back({index});
    } else {
      found->push_back(index);
    }
  }
  return chains;
}

void add_ranks(const RunRecord& record, RunReport& report) {
  std::vector<const ProcessRecord*> processes;
  std::set<std::uint32_t> seen;
  std::uint32_t last = 0;
  for (const ProcessRecord& each : record.processes) {
    processes.push_back(&each);
    last = std::max(last, each.attempt);
  }
  for (const Launcher& each : record.launchers) last = std::max(last, each.attempt);
  report.attempt = last;
  for (const ProcessRecord& each : record.processes) {
    if (!each.rank || !each.world_size || each.totals.empty()) continue;
    seen.insert(*each.rank);
    report.ranks_expected =
        std::max<std::uint64_t>(report.ranks_expected.value_or(0), *each.world_size);
  }
  report.restarts = restarts_of(processes);
  if (report.ranks_expected && seen.size() < *report.ranks_expected) {
    report.partial = true;
    report.notes.push_back({"ranks_missing",
                            {{"seen", static_cast<std::int64_t>(seen.size())},
                             {"expected", static_cast<std::int64_t>(*report.ranks_expected)}}});
  }
  if (report.restarts > 0) {
    report.notes.push_back(
        {"restarted", {{"restarts", static_cast<std::int64_t>(report.restarts)}}});
  }
  std::set<std::string> hosts;
  std::uint64_t places = 0, tasks = 0;
  for (const Launcher& each : record.launchers) {
    hosts.insert(each.host);
    tasks = std::max<std::uint64_t>(tasks, each.tasks.value_or(0));
    if (!each.superseded) ++places;
    if (each.superseded || each.ended) continue;
    if (record.launchers.size() < 2) continue;
    report.partial = true;
    report.notes.push_back({each.over ? "launcher_killed" : "launcher_under_way",
                            {{"host", each.host}, {"pid", static_cast<std::int64_t>(each.pid)}}});
  }
  if (places < tasks) {
    report.partial = true;
    report.notes.push_back({"launchers_missing",
                            {{"seen", static_cast<std::int64_t>(places)},
                             {"expected", static_cast<std::int64_t>(tasks)}}});
  }
  report.launchers = record.launchers.size();
  report.hosts = std::max<std::size_t>(hosts.size(), 1);
}

}  // namespace mfu
