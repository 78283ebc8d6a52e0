#include "report/run_ending.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace mfu {

namespace {

bool computed(const RunReport& report) {
  return report.flop && report.flop->hardware_flop > FlopCount(0);
}

bool is_restarted(const RunRecord& record, const ProcessRecord& process) {
  return std::any_of(
      record.processes.begin(), record.processes.end(), [&](const ProcessRecord& other) {
        return process.rank && other.rank == process.rank &&
               other.started + other.realtime_offset > process.started + process.realtime_offset;
      });
}

// Ranks that never said that they ended, although the run is over, and that were not restarted (a
// later process of the same rank is a restart). The rank that fell silent first comes first: the
// launcher ends the others after it.
std::vector<const ProcessRecord*> killed_ranks(const RunRecord& record) {
  std::vector<const ProcessRecord*> killed;
  for (const ProcessRecord& each : record.processes) {
    if (each.ended || (!each.rank && each.steps.empty())) continue;
    if (!is_restarted(record, each)) killed.push_back(&each);
  }
  std::stable_sort(
      killed.begin(), killed.end(), [](const ProcessRecord* left, const ProcessRecord* right) {
        return left->last + left->realtime_offset < right->last + right->realtime_offset;
      });
  return killed;
}

}  // namespace

void add_ending(const RunRecord& record, RunReport& report) {
  for (const ProcessRecord& each : record.processes) {
    const std::string* stopped = each.fact("stopped");
    if (stopped != nullptr) report.stopped_after_steps = parse_count(*stopped);
  }
  if (!record.run.exit_status) return;
  RunEnding ending;
  ending.status = record.run.exit_status;
  ending.signal = record.run.signal;
  if (report.stopped_after_steps) {  // whatever the processes returned
    ending.how = RunEnding::How::stopped;
    report.run.exit_status = 0;
    report.ended = ending;
    return;
  }
  if (ending.signal) ending.how = RunEnding::How::signal;
  std::vector<const ProcessRecord*> killed;
  if (*ending.status != 0) killed = killed_ranks(record);
  if (!killed.empty()) {
    ending.rank = killed.front()->rank;
    report.partial = true;
    if (!ending.signal && record.processes.size() > 1) ending.how = RunEnding::How::lost;
  }
  constexpr std::size_t kMostSaid = 8;
  for (std::size_t i = 0; i < killed.size() && i < kMostSaid; ++i) {
    const ProcessRecord& each = *killed[i];
    report.notes.push_back(
        {each.rank ? "rank_killed" : "process_killed",
         {{"number", each.rank ? std::int64_t{*each.rank} : std::int64_t{each.pid}}}});
  }
  if (*ending.status != 0 && !computed(report)) {
    report.notes.push_back({ending.signal ? "ended_early_by_signal" : "ended_early",
                            {{"number", std::int64_t{ending.signal.value_or(*ending.status)}}}});
  }
  report.ended = ending;
}

bool failed_early(const RunRecord& record, const RunReport& report) {
  return record.run.exit_status.value_or(0) != 0 && !computed(report);
}

}  // namespace mfu
