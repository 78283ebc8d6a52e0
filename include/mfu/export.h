// A run directory written out again: the documented log, a table, TensorBoard's files, metrics.
// Whole, also where the process that logged was killed and its own files are but a prefix.
//
//   mfu::RecordedSteps steps = mfu::read_recorded_steps("run").value();
//   auto done = mfu::export_steps(steps, {.jsonl = "training_log.json", .tensorboard = "board"});
//   done->files[0].steps;
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mfu/monitor.h"
#include "mfu/result.h"

namespace mfu {

// Paths; an empty one is not written.
struct ExportTargets {
  std::string jsonl{};        // one object a step (docs/formats/training_log.md)
  std::string csv{};          // one row a step
  std::string tensorboard{};  // a folder; several ranks get one each below it, rank0, rank1, …
  std::string prometheus{};   // the newest step of each rank
  // What is there gives way. Otherwise nothing is written where one of them exists, or the folder
  // holds event files: the same steps twice would be shown twice.
  bool replace = false;
};

struct ExportedFile {
  std::string format;  // "jsonl", "csv", "tensorboard", "prometheus"
  std::string path;
  std::uint64_t steps = 0;
};

struct ExportReport {
  std::string run;  // the directory
  std::uint64_t steps = 0, dropped = 0;
  std::vector<std::uint32_t> ranks;  // that said which they are
  std::vector<ExportedFile> files;
  std::vector<std::string> notes;
};

// A file is there whole or not at all: it is written beside its name and then renamed.
// `invalid_argument` where something is in the way, `io` where it cannot be written.
Result<ExportReport> export_steps(const RecordedSteps& steps, const ExportTargets& targets);

std::string to_text(const ExportReport& report);
std::string to_json(const ExportReport& report);  // mfu.export/1

}  // namespace mfu
