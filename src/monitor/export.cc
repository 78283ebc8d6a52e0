#include "mfu/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "mfu/sink.h"

namespace mfu {

namespace {

namespace fs = std::filesystem;

using Rank = std::optional<std::uint32_t>;
using Ranks = std::set<Rank>;

// All steps of a rank make one curve, also if its process was started again.
std::string folder_of(const std::string& folder, const Rank& rank, const Ranks& ranks) {
  if (ranks.size() < 2) return folder;
  return rank ? fmt::format("{}/rank{}", folder, *rank) : folder + "/no_rank";
}

struct EventFiles {
  std::vector<fs::path> ours;  // event files that mfu wrote
  bool others = false;
};

EventFiles event_files(const std::string& folder) {
  EventFiles found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (name.find("tfevents") == std::string::npos) continue;
    if (name.ends_with(".mfu")) {
      found.ours.push_back(entry.path());
    } else {
      found.others = true;
    }
  }
  return found;
}

// Checked before anything is written, so that a refusal changes nothing.
Result<void> check_room(const ExportTargets& targets, const Ranks& ranks) {
  std::set<std::string> named;
  for (const std::string& path : {targets.jsonl, targets.csv, targets.prometheus}) {
    if (path.empty()) continue;
    std::error_code error;
    if (!named.insert(fs::absolute(path, error).lexically_normal()).second) {
      return fail(ErrorCode::invalid_argument, fmt::format("{} is named twice", path));
    }
    if (fs::is_directory(path, error)) {
      return fail(ErrorCode::invalid_argument, fmt::format("{} is a folder: name a file", path));
    }
    if (!targets.replace && fs::exists(path, error)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} is there already: name another, or --force to replace it", path));
    }
  }
  if (targets.tensorboard.empty() || targets.replace) return {};
  for (const Rank& rank : ranks) {
    std::string folder = folder_of(targets.tensorboard, rank, ranks);
    EventFiles found = event_files(folder);
    if (found.ours.empty() && !found.others) continue;
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} holds event files already, and TensorBoard would show both: name "
                            "another folder, or --force to replace those that mfu wrote",
                            folder));
  }
  return {};
}

// One output. It is opened when the first step arrives.
class Output {
 public:
  virtual ~Output() = default;
  Result<void> write(std::span<const StepReport> reports) {
    if (reports.empty()) return {};
    if (file_.steps == 0) MFU_TRY(sink_->open());
    file_.steps += reports.size();
    return sink_->write(reports);
  }
  // Call it when everything was written. Adds the file to `report`.
  Result<void> finish(ExportReport& report) {
    if (file_.steps != 0) MFU_TRY(sink_->close());
    MFU_TRY(settle(report));
    report.files.push_back(file_);
    return {};
  }

 protected:
  Output(ExportedFile file, std::unique_ptr<Sink> sink)
      : file_(std::move(file)), sink_(std::move(sink)) {}
  virtual Result<void> settle(ExportReport& report) = 0;
  ExportedFile file_;           // NOLINT(readability-identifier-naming): as private ones
  std::unique_ptr<Sink> sink_;  // NOLINT(readability-identifier-naming)
};

// A file of records. It gets its name only when it is complete.
class Records : public Output {
 public:
  Records(const char* format, const std::string& path, std::unique_ptr<Sink> (*make)(std::string))
      : Output({format, path, 0}, make(path + ".part")), part_(path + ".part") {
    std::error_code error;
    fs::remove(part_, error);
  }
  ~Records() override {
    std::error_code error;
    if (!settled_) fs::remove(part_, error);
  }

 private:
  Result<void> settle(ExportReport&) override {
    std::error_code error;
    if (file_.steps == 0) return write_file(file_.path, "");
    fs::rename(part_, file_.path, error);
    if (error) return fail(ErrorCode::io, fmt::format("{}: {}", file_.path, error.message()));
    settled_ = true;
    return {};
  }
  std::string part_;
  bool settled_ = false;
};

class Board : public Output {
 public:
  explicit Board(const std::string& folder)
      : Output({"tensorboard", folder, 0}, make_tensorboard_sink(folder)),
        before_(event_files(folder)) {}

 private:
  Result<void> settle(ExportReport& report) override {
    std::error_code error;
    for (const fs::path& path : before_.ours) fs::remove(path, error);
    if (before_.others) {
      report.notes.push_back(
          fmt::format("{} also holds event files of another writer: they were left", file_.path));
    }
    return {};
  }
  EventFiles before_;
};

// Passes steps on to every output that wants them.
struct Outputs {
  std::vector<std::unique_ptr<Output>> all;        // these get every step
  std::map<Rank, std::unique_ptr<Output>> boards;  // these get the steps of one rank
  std::map<Rank, StepReport> newest;
  std::uint64_t steps = 0;

  Result<void> write(std::span<const StepReport> reports) {
    steps += reports.size();
    for (const std::unique_ptr<Output>& each : all) MFU_TRY(each->write(reports));
    while (!reports.empty()) {
      const Rank& rank = reports[0].basis->rank;
      auto other = std::find_if(reports.begin(), reports.end(), [&](const StepReport& report) {
        return report.basis->rank != rank;
      });
      auto count = static_cast<std::size_t>(other - reports.begin());
      newest.insert_or_assign(rank, reports[count - 1]);
      if (auto board = boards.find(rank); board != boards.end()) {
        MFU_TRY(board->second->write(reports.first(count)));
      }
      reports = reports.subspan(count);
    }
    return {};
  }
  Result<void> finish(ExportReport& report) {
    for (const std::unique_ptr<Output>& each : all) MFU_TRY(each->finish(report));
    for (const auto& [rank, board] : boards) MFU_TRY(board->finish(report));
    return {};
  }
};

}  // namespace

Result<ExportReport> export_stream(const StepStream& stream, const ExportTargets& targets,
                                   const TakeSteps& also) {
  MFU_TRY(check_room(targets, stream.ranks));
  Outputs outputs;
  auto add = [&](const char* format, const std::string& path,
                 std::unique_ptr<Sink> (*make)(std::string)) {
    if (!path.empty()) outputs.all.push_back(std::make_unique<Records>(format, path, make));
  };
  add("jsonl", targets.jsonl, make_jsonl_sink);
  add("csv", targets.csv, make_csv_sink);
  for (const Rank& rank : stream.ranks) {
    if (targets.tensorboard.empty()) break;
    outputs.boards[rank] =
        std::make_unique<Board>(folder_of(targets.tensorboard, rank, stream.ranks));
  }
  RecordedSteps ended =
      MFU_TRY(stream.read([&](std::span<const StepReport> reports) -> Result<void> {
        MFU_TRY(outputs.write(reports));
        return also ? also(reports) : Result<void>();
      }));
  ExportReport report{.steps = outputs.steps, .dropped = ended.dropped, .notes = ended.notes};
  if (ended.dropped != 0) {
    report.notes.push_back(fmt::format(
        "{} step(s) were dropped while the run went on (they came faster than they could be kept, "
        "or a disk stalled): they are nowhere",
        ended.dropped));
  }
  for (const Rank& rank : stream.ranks) {
    if (rank) report.ranks.push_back(*rank);
  }
  MFU_TRY(outputs.finish(report));
  if (!targets.prometheus.empty()) {
    std::vector<StepReport> newest;
    for (auto& [rank, last] : outputs.newest) newest.push_back(std::move(last));
    MFU_TRY(write_file(targets.prometheus, prometheus_text(newest)));
    report.files.push_back({"prometheus", targets.prometheus, newest.size()});
  }
  return report;
}

Result<ExportReport> export_steps(const RecordedSteps& steps, const ExportTargets& targets) {
  StepStream stream;
  for (const StepReport& report : steps.reports) stream.ranks.insert(report.basis->rank);
  stream.read = [&](const TakeSteps& take) -> Result<RecordedSteps> {
    if (!steps.reports.empty()) MFU_TRY(take(steps.reports));
    return RecordedSteps{.dropped = steps.dropped, .notes = steps.notes};
  };
  return export_stream(stream, targets);
}

std::string to_text(const ExportReport& report) {
  std::string text =
      fmt::format("{}: {} step{}", report.run, grouped(report.steps), report.steps == 1 ? "" : "s");
  if (report.ranks.size() > 1) text += fmt::format(" of {} ranks", report.ranks.size());
  text += '\n';
  for (const ExportedFile& file : report.files) {
    text += fmt::format("  {:<12}{}\n", file.format, file.path);
  }
  return text;
}

std::string to_json(const ExportReport& report) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "mfu.export/1");
  json.member("run", report.run);
  json.member("steps", report.steps);
  json.member("dropped", report.dropped);
  json.key("ranks").begin_array();
  for (std::uint32_t rank : report.ranks) json.value(static_cast<std::uint64_t>(rank));
  json.end_array();
  json.objects("files", report.files, [&](const ExportedFile& file) {
    json.member("format", file.format);
    json.member("path", file.path);
    json.member("steps", file.steps);
  });
  json.strings("notes", report.notes);
  json.end_object();
  return json.text();
}

}  // namespace mfu
