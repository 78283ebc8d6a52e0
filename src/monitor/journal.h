// A monitor's part of a run directory: steps-HOST-PID-TOKEN.json says how to read, .bin has what
// was logged, record by record. docs/formats/steps.md has the format.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
  bool locked = true;          // while its process lives; version 0.1.0 locked none
  std::uint64_t dropped = 0;   // steps that are nowhere, where it ended
  PipelineOptions pipeline{};  // without its model
  std::string model_json{};    // a config.json, or
  std::string model_kept{};    // model/spec_json.h; both empty: nothing can be estimated again
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
  // Makes the directory and the files again where they were deleted or moved; take_notes() says so.
  Result<void> append(std::span<const JournalEntry> entries);
  // The run ended well: nothing is left elsewhere.
  Result<void> end(std::uint64_t dropped);
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  Result<void> stand();
  std::string path_;  // without ending
  JournalFacts facts_;
  AppendFile file_;
  std::vector<std::string> notes_;
};

struct JournalContent {
  std::vector<JournalEntry> entries;
  std::size_t damaged = 0;  // records that were skipped
};
Result<JournalContent> read_journal(const std::string& path);
// The same one at a time, none of them held: how many were damaged.
Result<std::size_t> read_journal(const std::string& path,
                                 const std::function<void(const JournalEntry&)>& give);

// Moves what dead processes of this machine left in their queues into their journals.
void recover_journals(const std::string& directory);

// The facts files of a directory, by name.
std::vector<std::string> facts_files(const std::string& directory);
std::string this_host();
// steps-HOST-PID-TOKEN, unlike that of any other monitor: a container that was started again has
// the host name and the process number it had before.
std::string journal_name();

}  // namespace mfu
