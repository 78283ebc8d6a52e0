#include "mfu/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace mfu {

namespace {

namespace fs = std::filesystem;

// Steps of one rank, those of a process that was started again among them: one curve.
using Rank = std::optional<std::uint32_t>;
using Steps = std::vector<const StepReport*>;
using ByRank = std::map<Rank, Steps>;

ByRank by_rank(const std::vector<StepReport>& reports) {
  ByRank ranks;
  for (const StepReport& report : reports) ranks[report.basis->rank].push_back(&report);
  return ranks;
}

std::string folder_of(const std::string& folder, const Rank& rank, const ByRank& ranks) {
  if (ranks.size() < 2) return folder;
  return rank ? fmt::format("{}/rank{}", folder, *rank) : folder + "/no_rank";
}

struct EventFiles {
  std::vector<fs::path> ours;  // made by this product, from steps
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

// Before anything is written: a refusal leaves everything as it was.
Result<void> check_room(const ExportTargets& targets, const ByRank& ranks) {
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
  for (const auto& [rank, reports] : ranks) {
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

constexpr std::size_t kAtOnce = 4096;

Result<void> fill(Sink& sink, std::span<const StepReport> reports) {
  MFU_TRY(sink.open());
  for (std::size_t at = 0; at < reports.size(); at += kAtOnce) {
    MFU_TRY(sink.write(reports.subspan(at, std::min(kAtOnce, reports.size() - at))));
  }
  return sink.close();
}

// Steps that do not stand together; a few are copied at a time.
Result<void> fill(Sink& sink, const Steps& steps) {
  MFU_TRY(sink.open());
  std::vector<StepReport> batch;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    batch.push_back(*steps[i]);
    if (batch.size() < kAtOnce && i + 1 < steps.size()) continue;
    MFU_TRY(sink.write(batch));
    batch.clear();
  }
  return sink.close();
}

// A file of records, whole under its name or not there.
Result<void> write_records(const std::string& path, std::span<const StepReport> reports,
                           std::unique_ptr<Sink> (*make)(std::string)) {
  std::string part = path + ".part";
  std::error_code error;
  fs::remove(part, error);
  if (reports.empty()) return write_file(path, "");
  Result<void> filled = fill(*make(part), reports);
  if (filled.has_value()) {
    fs::rename(part, path, error);
    if (!error) return {};
    filled = fail(ErrorCode::io, fmt::format("{}: {}", path, error.message()));
  }
  fs::remove(part, error);
  return filled;
}

Result<void> write_board(const ExportTargets& targets, const ByRank& ranks, ExportReport& report) {
  for (const auto& [rank, reports] : ranks) {
    std::string folder = folder_of(targets.tensorboard, rank, ranks);
    EventFiles before = event_files(folder);
    MFU_TRY(fill(*make_tensorboard_sink(folder), reports));
    std::error_code error;
    for (const fs::path& path : before.ours) fs::remove(path, error);
    if (before.others) {
      report.notes.push_back(
          fmt::format("{} also holds event files of another writer: they were left", folder));
    }
    report.files.push_back({"tensorboard", folder, reports.size()});
  }
  return {};
}

}  // namespace

Result<ExportReport> export_steps(const RecordedSteps& steps, const ExportTargets& targets) {
  ByRank ranks = by_rank(steps.reports);
  MFU_TRY(check_room(targets, ranks));
  ExportReport report;
  report.steps = steps.reports.size();
  report.dropped = steps.dropped;
  report.notes = steps.notes;
  if (steps.dropped != 0) {
    report.notes.push_back(fmt::format(
        "{} step(s) were dropped while the run went on (a disk that stalled): they are nowhere",
        steps.dropped));
  }
  for (const auto& [rank, reports] : ranks) {
    if (rank) report.ranks.push_back(*rank);
  }
  if (!targets.jsonl.empty()) {
    MFU_TRY(write_records(targets.jsonl, steps.reports, make_jsonl_sink));
    report.files.push_back({"jsonl", targets.jsonl, steps.reports.size()});
  }
  if (!targets.csv.empty()) {
    MFU_TRY(write_records(targets.csv, steps.reports, make_csv_sink));
    report.files.push_back({"csv", targets.csv, steps.reports.size()});
  }
  if (!targets.tensorboard.empty()) MFU_TRY(write_board(targets, ranks, report));
  if (!targets.prometheus.empty()) {
    std::vector<StepReport> newest;
    for (const auto& [rank, reports] : ranks) newest.push_back(*reports.back());
    MFU_TRY(write_file(targets.prometheus, prometheus_text(newest)));
    report.files.push_back({"prometheus", targets.prometheus, newest.size()});
  }
  return report;
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
