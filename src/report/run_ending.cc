#include "report/run_ending.h"

#include <fmt/format.h>

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
    std::string who = killed->rank ? fmt::format("rank {}", *killed->rank)
                                   : fmt::format("process {}", killed->pid);
    report.notes.push_back(
        fmt::format("{} ended without its last words: it was killed, or left by os._exit. What it "
                    "counted until then is here",
                    who));
  }
  if (*ending.status != 0 && !computed(report)) {
    report.notes.push_back(ending.signal
                               ? fmt::format("signal {} ended the command before it computed "
                                             "anything",
                                             *ending.signal)
                               : fmt::format("the command ended with status {} before it computed "
                                             "anything: see what it printed",
                                             *ending.status));
  }
  report.ended = ending;
}

bool failed_early(const RunRecord& record, const RunReport& report) {
  return record.run.exit_status.value_or(0) != 0 && !computed(report);
}

}  // namespace mfu
