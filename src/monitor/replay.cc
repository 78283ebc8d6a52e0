#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "base/file.h"
#include "mfu/monitor.h"
#include "model/spec_json.h"
#include "monitor/journal.h"
#include "monitor/step_queue.h"

namespace mfu {

namespace {

// What the queue of a process still holds beyond its journal. A process that runs on may move steps
// from one to the other meanwhile: the queue is read first, so that none is in neither.
Result<std::vector<JournalEntry>> entries_of(const std::string& facts_path,
                                             const JournalFacts& facts, RecordedSteps& all) {
  LeftInQueue left;
  if (!facts.ended && !facts.queue.empty()) {
    Result<LeftInQueue> found = read_queue(facts.queue);
    if (found.has_value()) {
      left = *found;
    } else {
      all.notes.push_back(
          fmt::format("{}: the last steps may be missing: {}", facts_path, found.error().message));
    }
  }
  std::string bin = facts_path.substr(0, facts_path.size() - 5) + ".bin";
  JournalContent content = MFU_TRY(read_journal(bin));
  if (content.damaged != 0) {
    all.notes.push_back(
        fmt::format("{}: {} damaged record(s) were passed over", bin, content.damaged));
  }
  std::vector<JournalEntry> entries;
  std::set<std::uint64_t> known;
  for (const JournalEntry& entry : content.entries) {
    if (entry.beside() || known.insert(entry.position).second) entries.push_back(entry);
  }
  for (const LeftInQueue::Entry& entry : left.entries) {
    if (!known.contains(entry.position)) entries.push_back({entry.position, entry.step});
  }
  all.dropped += facts.ended ? facts.dropped : left.dropped;
  // What the background thread found out for a step stands before it.
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    auto order = [](const JournalEntry& entry) {
      return std::pair(entry.position, entry.beside() ? 0 : 1);
    };
    return order(a) < order(b);
  });
  return entries;
}

Result<std::vector<StepReport>> replay(const std::string& facts_path, RecordedSteps& all) {
  std::string text = MFU_TRY(read_file(facts_path));
  JournalFacts facts = MFU_TRY(parse_facts(text, facts_path));
  std::vector<JournalEntry> entries = MFU_TRY(entries_of(facts_path, facts, all));
  PipelineOptions options = facts.pipeline;
  if (!facts.model_json.empty()) {
    Diagnostics diagnostics;
    auto model = parse_model(facts.model_json, facts_path, {}, diagnostics);
    if (model.has_value()) options.meter.model = *model;
  } else if (!facts.model_kept.empty()) {
    Result<KeptModel> kept = read_kept_model(facts.model_kept, facts_path);
    if (kept.has_value()) {
      options.meter.model = kept->model;
      options.meter.training = kept->training;
    } else {
      all.notes.push_back(kept.error().message);
    }
  }
  StepPipeline pipeline(options, [&](std::string warning) {
    if (std::find(all.notes.begin(), all.notes.end(), warning) == all.notes.end()) {
      all.notes.push_back(std::move(warning));
    }
  });
  std::map<std::uint32_t, LoggedStep> arrived;
  for (const JournalEntry& entry : entries) {
    if (entry.step.kind == LoggedKind::arrived) arrived[entry.step.ticket] = entry.step;
  }
  std::vector<StepReport> reports;
  reports.reserve(entries.size());  // growing would hold them twice
  for (const JournalEntry& entry : entries) {
    auto found = entry.step.has & awaits ? arrived.find(entry.step.ticket) : arrived.end();
    LoggedStep step = found == arrived.end() ? entry.step : completed(entry.step, found->second);
    if (std::optional<StepReport> report = pipeline.take(step)) {
      reports.push_back(std::move(*report));
    }
  }
  return reports;
}

}  // namespace

Result<RecordedSteps> read_recorded_steps(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    return fail(ErrorCode::not_found,
                fmt::format("there is no run directory {}; mfu run says where it wrote one (its "
                            "last line), a monitor has one in its output folder",
                            directory));
  }
  std::vector<std::string> files = facts_files(directory);
  // The folder that a monitor writes its log to.
  if (files.empty()) files = facts_files(directory + "/mfu-run");
  if (files.empty()) {
    return fail(ErrorCode::not_found,
                fmt::format("{} holds no steps of a monitor (steps-*.json)", directory));
  }
  RecordedSteps all;
  std::vector<std::vector<StepReport>> processes;
  for (const std::string& path : files) {
    Result<std::vector<StepReport>> done = replay(path, all);
    if (!done.has_value()) {
      all.notes.push_back(done.error().message);
    } else if (!done->empty()) {
      processes.push_back(std::move(done).value());
    }
  }
  // One that was started again goes on where the first ended, whatever their numbers.
  std::stable_sort(processes.begin(), processes.end(),
                   [](const auto& a, const auto& b) { return a[0].time < b[0].time; });
  std::size_t steps = 0;
  for (const std::vector<StepReport>& each : processes) steps += each.size();
  if (processes.size() == 1) {
    all.reports = std::move(processes[0]);
    return all;
  }
  all.reports.reserve(steps);
  for (std::vector<StepReport>& each : processes) {
    std::move(each.begin(), each.end(), std::back_inserter(all.reports));
    std::vector<StepReport>().swap(each);
  }
  return all;
}

}  // namespace mfu
