#include "monitor/journal.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/crc32c.h"
#include "base/file.h"
#include "mfu/units.h"
#include "monitor/step_queue.h"

namespace mfu {

namespace {

// One record: position, step, CRC-32C of both, zeros to a multiple of eight.
constexpr std::size_t kRecordBytes = 136, kSummedBytes = 128;
// The most bytes of a deleted journal that are written again.
constexpr std::uint64_t kMostRestored = 64 << 20;
constexpr std::uint64_t kMostJournalBytes = 1u << 30;  // 7.8 million steps

std::string record_of(const JournalEntry& entry) {
  std::string record(kRecordBytes, '\0');
  std::memcpy(record.data(), &entry.position, 8);
  std::memcpy(record.data() + 8, &entry.step, sizeof entry.step);
  std::uint32_t sum = crc32c(std::string_view(record).substr(0, kSummedBytes));
  std::memcpy(record.data() + kSummedBytes, &sum, 4);
  return record;
}

Result<JournalFacts> read_facts(const std::string& path) {
  return parse_facts(MFU_TRY(read_file(path)), path);
}

// Whether the process has ended. Version 0.1.0 did not lock its queues, so there the process number
// decides. If that number is our own, the process has ended too, because our queues are locked.
bool gone(const JournalFacts& facts) {
  if (facts.locked) return true;
  if (facts.host != this_host()) return false;
  auto pid = static_cast<pid_t>(facts.pid);
  return pid == ::getpid() || (::kill(pid, 0) != 0 && errno == ESRCH);
}

void recover(const std::string& facts_path) {
  Result<JournalFacts> first = read_facts(facts_path);
  if (!first.has_value() || first->ended || first->queue.empty()) return;
  DeadQueue dead(first->queue);
  if (!dead.held()) return;
  // Read again, now that we hold the lock and nobody else recovers it.
  Result<JournalFacts> parsed = read_facts(facts_path);
  if (!parsed.has_value() || parsed->ended || !gone(*parsed)) return;
  JournalFacts facts = std::move(parsed).value();
  std::string bin = facts_path.substr(0, facts_path.size() - 5) + ".bin";
  Result<LeftInQueue> left = read_queue(facts.queue);
  if (!left.has_value()) return;
  std::map<std::uint64_t, const LoggedStep*> missing;  // in the queue but not in the journal
  for (const LeftInQueue::Entry& entry : left->entries) missing[entry.position] = &entry.step;
  Result<std::size_t> read = read_journal(bin, [&](const JournalEntry& entry) {
    if (!entry.beside()) missing.erase(entry.position);
  });
  if (!read.has_value()) return;
  std::string records;
  for (const auto& [position, step] : missing) records += record_of({position, *step});
  Result<AppendFile> file = AppendFile::open(bin, false);
  if (!file.has_value()) return;
  // A record that a killed process left incomplete is filled up, so that the next ones begin at a
  // multiple of the record size, where a reader looks for them.
  std::error_code error;
  std::uintmax_t size = std::filesystem::file_size(bin, error);
  if (!error && size % kRecordBytes != 0)
    records.insert(0, kRecordBytes - size % kRecordBytes, '\0');
  if (!file.value().append(records).has_value()) return;
  facts.ended = true;
  facts.dropped = left->dropped;
  if (write_file(facts_path, to_json(facts)).has_value()) ::unlink(facts.queue.c_str());
}

}  // namespace

std::string this_host() {
  char host[65] = "localhost";
  ::gethostname(host, sizeof host - 1);
  std::string name = host;
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '/' || c <= ' '; }, '_');
  return name;
}

std::string journal_name() {
  std::uint64_t token = 0;
  if (::getrandom(&token, sizeof token, GRND_NONBLOCK) != sizeof token) {
    token = static_cast<std::uint64_t>(Clock::system().since_1970().count());
  }
  return fmt::format("steps-{}-{}-{:016x}", this_host(), ::getpid(), token);
}

std::vector<std::string> facts_files(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("steps-") && name.ends_with(".json")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<Journal> Journal::create(const std::string& directory, const std::string& name,
                                JournalFacts facts) {
  Journal journal;
  journal.path_ = directory + "/" + name;
  journal.facts_ = std::move(facts);
  journal.file_ = MFU_TRY(AppendFile::open(journal.path_ + ".bin", false));
  MFU_TRY(write_file(journal.path_ + ".json", to_json(journal.facts_)));
  return journal;
}

Result<void> Journal::stand() {
  std::error_code error;
  if (file_.moved()) {
    std::uint64_t gone = MFU_TRY(file_.renew(kMostRestored));
    std::string folder = std::filesystem::path(path_).parent_path().string();
    notes_.push_back(fmt::format(
        "{} was deleted or moved while the run went on: it was made again{}", folder,
        gone == 0 ? "" : fmt::format(", without the first {} records", gone / kRecordBytes)));
  } else if (std::filesystem::exists(path_ + ".json", error)) {
    return {};
  }
  return write_file(path_ + ".json", to_json(facts_));
}

Result<void> Journal::append(std::span<const JournalEntry> entries) {
  MFU_TRY(stand());
  std::string records;
  records.reserve(entries.size() * kRecordBytes);
  for (const JournalEntry& entry : entries) records += record_of(entry);
  return file_.append(records);
}

Result<void> Journal::end(std::uint64_t dropped) {
  MFU_TRY(stand());
  facts_.ended = true;
  facts_.dropped = dropped;
  return write_file(path_ + ".json", to_json(facts_));
}

Result<std::size_t> read_journal(const std::string& path,
                                 const std::function<void(const JournalEntry&)>& give) {
  std::size_t damaged = 0;
  auto take = [&](std::string_view record) {
    std::uint32_t sum = 0;
    std::memcpy(&sum, record.data() + kSummedBytes, 4);
    if (sum != crc32c(record.substr(0, kSummedBytes))) {
      ++damaged;
      return;
    }
    JournalEntry entry;
    std::memcpy(&entry.position, record.data(), 8);
    std::memcpy(static_cast<void*>(&entry.step), record.data() + 8, sizeof entry.step);
    give(entry);
  };
  std::string bytes;  // the incomplete record of the last block, and this block
  MFU_TRY(read_file_blocks(path, kMostJournalBytes, [&](std::string_view block) {
    bytes += block;
    std::string_view left = bytes;
    for (; left.size() >= kRecordBytes; left.remove_prefix(kRecordBytes)) {
      take(left.substr(0, kRecordBytes));
    }
    bytes = std::string(left);
  }));
  return damaged;
}

Result<JournalContent> read_journal(const std::string& path) {
  JournalContent content;
  content.damaged = MFU_TRY(
      read_journal(path, [&](const JournalEntry& entry) { content.entries.push_back(entry); }));
  return content;
}

void recover_journals(const std::string& directory) {
  for (const std::string& path : facts_files(directory)) recover(path);
}

}  // namespace mfu
