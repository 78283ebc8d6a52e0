// A monitor's part of a run directory: steps-HOST-PID-N.json says how to read, .bin has what was
// logged, record by record. docs/formats/steps.md has the format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/append.h"
#include "mfu/result.h"
#include "monitor/pipeline.h"

namespace mfu {

// What a reader must know beside the records.
struct JournalFacts {
  std::string host{};
  std::uint32_t pid = 0;
  std::string queue{};         // the memory-backed file; may outlive the process
  PipelineOptions pipeline{};  // without its model
  std::string model_json{};    // empty: FLOPs cannot be estimated again
  bool ended = false;          // everything is in the journal
};
std::string to_json(const JournalFacts& facts);
Result<JournalFacts> parse_facts(std::string_view json, std::string_view name);

struct JournalEntry {
  std::uint64_t position = 0;  // in the queue; of what the background thread adds: of the next step
  LoggedStep step;

  // Made by the background thread, never in a queue.
  bool beside() const {
    return step.kind == LoggedKind::period || step.kind == LoggedKind::hardware ||
           step.kind == LoggedKind::shared;
  }
};

class Journal {
 public:
  // Makes the directory and both files. `name` without folder and ending.
  static Result<Journal> create(const std::string& directory, const std::string& name,
                                JournalFacts facts);
  Result<void> append(std::span<const JournalEntry> entries);
  // The run ended well: nothing is left elsewhere.
  Result<void> end();

 private:
  std::string path_;  // without ending
  JournalFacts facts_;
  AppendFile file_;
};

struct JournalContent {
  std::vector<JournalEntry> entries;
  std::size_t damaged = 0;  // records that were skipped
};
Result<JournalContent> read_journal(const std::string& path);

// Moves what dead processes of this machine left in their queues into their journals.
void recover_journals(const std::string& directory);

// The facts files of a directory, by name.
std::vector<std::string> facts_files(const std::string& directory);
std::string this_host();

}  // namespace mfu
