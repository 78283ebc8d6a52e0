// The journal: a monitor's part of a run directory. steps-HOST-PID-TOKEN.json has the facts that a
// reader needs, and the .bin file has what was logged, record by record (docs/formats/steps.md).
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

// What a reader needs besides the records.
struct JournalFacts {
  std::string host{};
  std::uint32_t pid = 0;
  std::string queue{};         // the file in memory; it may outlive the process
  bool locked = true;          // the queue is locked while its process lives; not so in 0.1.0
  std::uint64_t dropped = 0;   // steps that were lost; known at the end
  PipelineOptions pipeline{};  // without its model
  std::string model_json{};    // the model as a config.json, or
  std::string model_kept{};    // as model/spec_json.h writes it; both empty: there is no model
  bool ended = false;          // whether everything is in the journal
};
std::string to_json(const JournalFacts& facts);
Result<JournalFacts> parse_facts(std::string_view json, std::string_view name);

struct JournalEntry {
  // Position in the queue. For an entry of the background thread, the position of the next step.
  std::uint64_t position = 0;
  LoggedStep step;

  // Whether the background thread made it. Such an entry was never in a queue.
  bool beside() const {
    return step.kind == LoggedKind::period || step.kind == LoggedKind::hardware ||
           step.kind == LoggedKind::shared;
  }
};

class Journal {
 public:
  // Makes the directory and both files. `name` has no folder and no ending.
  static Result<Journal> create(const std::string& directory, const std::string& name,
                                JournalFacts facts);
  // If the directory or the files were deleted or moved, makes them again; take_notes() says so.
  Result<void> append(std::span<const JournalEntry> entries);
  // Marks that the run has ended and that everything is in the journal.
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
// The same, one record at a time. Returns how many were damaged.
Result<std::size_t> read_journal(const std::string& path,
                                 const std::function<void(const JournalEntry&)>& give);

// Copies what dead processes of this machine left in their queues to their journals.
void recover_journals(const std::string& directory);

// The facts files of a directory, by name.
std::vector<std::string> facts_files(const std::string& directory);
std::string this_host();
// steps-HOST-PID-TOKEN. The token makes it unique, because a container that was started again has
// the same host name and process number as before.
std::string journal_name();

}  // namespace mfu
