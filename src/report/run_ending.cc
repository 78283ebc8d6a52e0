#include "report/run_ending.h"

#include <algorithm>

#include "base/text.h"

namespace mfu {

namespace {

bool computed(const RunReport& report) {
  return report.flop && report.flop->hardware_flop > FlopCount(0);
}

// A rank that never said goodbye although the run is over, and that nothing followed: a later
// process of the same rank is its restart.
const ProcessRecord* killed_rank(const RunRecord& record) {
  for (const ProcessRecord& each : record.processes) {
    if (each.ended || (!each.rank && each.steps.empty())) continue;
    bool restarted = std::any_of(
        record.processes.begin(), record.processes.end(), [&](const ProcessRecord& other) {
          return each.rank && other.rank == each.rank &&
                 other.started + other.realtime_offset > each.started + each.realtime_offset;
        });
    if (!restarted) return &each;
  }
  return nullptr;
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
  if (report.stopped_after_steps) {  // whatever its processes made of it
    ending.how = RunEnding::How::stopped;
    report.run.exit_status = 0;
    report.ended = ending;
    return;
  }
  if (ending.signal) ending.how = RunEnding::How::signal;
  const ProcessRecord* killed = *ending.status == 0 ? nullptr : killed_rank(record);
  if (killed != nullptr) {
    ending.rank = killed->rank;
    report.partial = true;
    if (!ending.signal && record.processes.size() > 1) ending.how = RunEnding::How::lost;
    report.notes.push_back(
        {killed->rank ? "rank_killed" : "process_killed",
         {{"number", killed->rank ? std::int64_t{*killed->rank} : std::int64_t{killed->pid}}}});
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
