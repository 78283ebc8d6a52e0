#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/file.h"
#include "base/in_order.h"
#include "mfu/monitor.h"
#include "model/spec_json.h"
#include "monitor/journal.h"
#include "monitor/step_queue.h"

namespace mfu {

namespace {

constexpr std::size_t kAtOnce = 1024;     // reports handed over at a time
constexpr std::size_t kMostOwed = 65536;  // steps that may wait for their numbers

// The steps of one process, found but not read yet.
struct Journaled {
  std::string path;  // of its facts
  JournalFacts facts;
  LeftInQueue left;
  Lateness late;
  std::optional<std::chrono::nanoseconds> first;  // when its first step ended
  std::uint64_t steps = 0;
  std::string bin() const { return path.substr(0, path.size() - 5) + ".bin"; }
};

// Sorts entries of the background thread before the step that they belong to.
std::uint64_t key_of(const JournalEntry& entry) {
  return entry.position * 2 + (entry.beside() ? 0 : 1);
}

// Measures how far a step and the numbers that came later for it are apart.
class Owed {
 public:
  void see(const JournalEntry& entry, Lateness& late) {
    if (entry.step.kind == LoggedKind::step && (entry.step.has & awaits) != 0) {
      if (positions_.size() == kMostOwed) positions_.erase(positions_.begin());
      positions_[entry.step.ticket] = key_of(entry);
    } else if (entry.step.kind == LoggedKind::arrived) {
      auto found = positions_.find(entry.step.ticket);
      if (found == positions_.end()) return;
      late.see(found->second);
      positions_.erase(found);
    }
  }

 private:
  std::map<std::uint32_t, std::uint64_t> positions_;  // by ticket
};

// A process that still runs may move steps from its queue to its journal meanwhile. So the queue is
// read first; otherwise a step could be missed in both.
Result<Journaled> survey(const std::string& path, RecordedSteps& all) {
  Journaled found{.path = path};
  found.facts = MFU_TRY(parse_facts(MFU_TRY(read_file(path)), path));
  if (!found.facts.ended && !found.facts.queue.empty()) {
    Result<LeftInQueue> left = read_queue(found.facts.queue);
    if (left.has_value()) {
      found.left = std::move(left).value();
    } else {
      all.notes.push_back(
          fmt::format("{}: the last steps may be missing: {}", path, left.error().message));
    }
  }
  Owed owed;
  auto see = [&](const JournalEntry& entry) {
    found.late.see(key_of(entry));
    owed.see(entry, found.late);
    if (entry.step.kind == LoggedKind::step && found.steps++ == 0) {
      found.first =
          std::chrono::nanoseconds(entry.step.end_ns) + found.facts.pipeline.realtime_offset;
    }
  };
  std::size_t damaged = MFU_TRY(read_journal(found.bin(), see));
  for (const LeftInQueue::Entry& entry : found.left.entries) see({entry.position, entry.step});
  if (damaged != 0) {
    all.notes.push_back(
        fmt::format("{}: {} damaged record(s) were passed over", found.bin(), damaged));
  }
  all.dropped += found.facts.ended ? found.facts.dropped : found.left.dropped;
  return found;
}

// The options of the run. Its model is read again.
PipelineOptions options_of(const Journaled& process, RecordedSteps& all) {
  const JournalFacts& facts = process.facts;
  PipelineOptions options = facts.pipeline;
  if (!facts.model_json.empty()) {
    auto model = parse_model(facts.model_json, process.path, {});
    if (model.has_value()) options.meter.model = *model;
  } else if (!facts.model_kept.empty()) {
    Result<KeptModel> kept = read_kept_model(facts.model_kept, process.path);
    if (kept.has_value()) {
      options.meter.model = kept->model;
      options.meter.training = kept->training;
    } else {
      all.notes.push_back(kept.error().message);
    }
  }
  return options;
}

Result<void> replay(const Journaled& process, RecordedSteps& all, const TakeSteps& take) {
  StepPipeline pipeline(options_of(process, all), [&](std::string warning) {
    if (std::find(all.notes.begin(), all.notes.end(), warning) == all.notes.end()) {
      all.notes.push_back(std::move(warning));
    }
  });
  std::map<std::uint32_t, LoggedStep> arrived;  // numbers for the steps that are held
  std::vector<StepReport> reports;
  Result<void> taken;
  std::optional<std::uint64_t> last;  // last position; a step may be there twice
  auto give = [&](const JournalEntry& entry) {
    if (!entry.beside() && std::exchange(last, entry.position) == entry.position) return;
    LoggedStep step = entry.step;
    if (step.kind == LoggedKind::arrived) arrived.erase(step.ticket);
    if ((step.has & awaits) != 0) {
      if (auto found = arrived.find(step.ticket); found != arrived.end()) {
        step = completed(step, found->second);
      }
    }
    if (std::optional<StepReport> report = pipeline.take(step)) reports.push_back(*report);
    if (reports.size() < kAtOnce || !taken.has_value()) return;
    taken = take(reports);
    reports.clear();
  };
  InOrder<JournalEntry> order(process.late.window(), give);
  auto add = [&](const JournalEntry& entry) {
    if (entry.step.kind == LoggedKind::arrived) arrived[entry.step.ticket] = entry.step;
    order.add(key_of(entry), entry);
  };
  MFU_TRY(read_journal(process.bin(), add));
  for (const LeftInQueue::Entry& entry : process.left.entries) add({entry.position, entry.step});
  order.finish();
  MFU_TRY(std::move(taken));
  return reports.empty() ? Result<void>() : take(reports);
}

}  // namespace

Result<StepStream> open_recorded_steps(const std::string& directory) {
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
  std::vector<Journaled> processes;
  for (const std::string& path : files) {
    Result<Journaled> found = survey(path, all);
    if (!found.has_value()) {
      all.notes.push_back(found.error().message);
    } else if (found->first) {
      processes.push_back(std::move(found).value());
    }
  }
  // A process that was started again comes after the first one, whatever their process numbers.
  std::stable_sort(processes.begin(), processes.end(),
                   [](const Journaled& a, const Journaled& b) { return *a.first < *b.first; });
  StepStream stream;
  for (const Journaled& each : processes) {
    stream.ranks.insert(each.facts.pipeline.basis.rank);
    stream.steps += each.steps;
  }
  stream.read = [all, processes](const TakeSteps& take) -> Result<RecordedSteps> {
    RecordedSteps ended = all;
    for (const Journaled& each : processes) MFU_TRY(replay(each, ended, take));
    return ended;
  };
  return stream;
}

Result<RecordedSteps> read_recorded_steps(const std::string& directory) {
  StepStream stream = MFU_TRY(open_recorded_steps(directory));
  std::vector<StepReport> reports;
  reports.reserve(stream.steps);  // a growing vector would hold them twice
  RecordedSteps all = MFU_TRY(stream.read([&](std::span<const StepReport> some) -> Result<void> {
    reports.insert(reports.end(), some.begin(), some.end());
    return {};
  }));
  all.reports = std::move(reports);
  return all;
}

}  // namespace mfu
