// Reads several traces at once: files, and directories of files.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "base/threads.h"
#include "trace/many.h"

namespace mfu {
namespace {

namespace fs = std::filesystem;

bool is_trace_name(const std::string& name) {
  for (std::string_view ending : {".json", ".json.gz", ".json.zst", ".trace", ".trace.gz"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

// Compares digits as numbers, so that "rank-10" comes after "rank-9".
bool natural_before(const std::string& a, const std::string& b) {
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    while (i < a.size() && a[i] == '0') ++i;
    while (j < b.size() && b[j] == '0') ++j;
    std::size_t end_a = i, end_b = j;
    while (end_a < a.size() && digit(a[end_a])) ++end_a;
    while (end_b < b.size() && digit(b[end_b])) ++end_b;
    if (end_a - i != end_b - j) return end_a - i < end_b - j;
    int order = a.compare(i, end_a - i, b, j, end_b - j);
    if (order != 0) return order < 0;
    i = end_a;
    j = end_b;
  }
  return a.size() - i < b.size() - j;
}

}  // namespace

Result<std::vector<ListedFile>> list_files(const std::vector<std::string>& paths) {
  std::vector<ListedFile> files;
  constexpr std::size_t kMostFiles = 100000;
  for (const std::string& path : paths) {
    std::error_code error;
    if (path == "-" || !fs::is_directory(path, error)) {
      files.push_back({.path = path});
      continue;
    }
    std::vector<std::string> found, parts;
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
      std::error_code no_file;
      std::string name = at->path().filename().string();
      std::vector<std::string>& list = name.ends_with(kPartEnding) ? parts : found;
      if (&list == &found && !is_trace_name(name)) continue;
      if (!at->is_regular_file(no_file)) continue;
      if (list.size() < kMostFiles) list.push_back(at->path().string());
    }
    if (error) {
      return fail(ErrorCode::io, fmt::format("{}: cannot be listed: {}", path, error.message()));
    }
    // Parts next to traces were most likely made from them.
    if (found.empty()) found = std::move(parts);
    if (found.empty()) {
      return fail(ErrorCode::not_found,
                  fmt::format("{}: holds no *.json, *.json.gz, *.json.zst or *.mfu-part: give a "
                              "trace, or the directory that tensorboard_trace_handler wrote",
                              path));
    }
    std::sort(found.begin(), found.end(), natural_before);
    for (std::string& file : found)
      files.push_back({.path = std::move(file), .in_directory = true});
  }
  if (files.empty())
    return fail(ErrorCode::invalid_argument, "no trace is given: give a file or a directory");
  return files;
}

namespace {

// The progress summed over the files that are being read.
class SharedProgress {
 public:
  SharedProgress(const std::vector<ListedFile>& files, const ReadOptions& options)
      : options_(options), done_(files.size()) {
    std::uint64_t sum = 0;
    for (const ListedFile& file : files) {
      std::error_code error;
      std::uintmax_t size = fs::file_size(file.path, error);
      if (error) return;
      sum += size;
    }
    whole_ = sum;
  }
  void at(std::size_t file, std::uint64_t bytes) {
    done_[file].store(bytes, std::memory_order_relaxed);
    std::uint64_t sum = 0;
    for (const auto& done : done_) sum += done.load(std::memory_order_relaxed);
    options_.progress({.bytes_done = sum, .bytes_whole = whole_});
  }

 private:
  const ReadOptions& options_;
  std::vector<std::atomic<std::uint64_t>> done_;
  std::optional<std::uint64_t> whole_;
};

}  // namespace

unsigned reading_threads(const ReadOptions& options, std::size_t files) {
  unsigned threads = options.threads != 0 ? options.threads : usable_cores();
  return std::clamp<unsigned>(threads, 1, static_cast<unsigned>(std::min<std::size_t>(files, 256)));
}

void read_files(const std::vector<ListedFile>& files, const ReadOptions& options, unsigned threads,
                const std::function<void(std::size_t, const ReadOptions&)>& read) {
  SharedProgress progress(files, options);
  std::atomic<std::size_t> next{0};
  unsigned all = options.threads != 0 ? options.threads : usable_cores();
  auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      ReadOptions each = options;
      each.threads = std::max(1u, all / threads);  // a single file gets all threads
      if (options.progress) {
        each.progress = [&progress, i](const ReadProgress& at) { progress.at(i, at.bytes_done); };
      }
      read(i, each);
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < threads; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
}

std::vector<std::size_t> order_by_rank(const std::vector<std::optional<std::int64_t>>& ranks) {
  std::vector<std::size_t> order(ranks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::set<std::int64_t> known;
  for (const std::optional<std::int64_t>& rank : ranks) {
    if (rank) known.insert(*rank);
  }
  if (known.size() != ranks.size()) return order;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return ranks[a] < ranks[b]; });
  return order;
}

bool is_stranger(const ListedFile& file, const Error& error) {
  return file.in_directory && error.code == ErrorCode::malformed;
}

Result<std::vector<Trace>> read_trace_files(const std::vector<std::string>& paths,
                                            const ReadOptions& options) {
  std::vector<ListedFile> files = MFU_TRY(list_files(paths));
  std::vector<Result<Trace>> results;
  for (const ListedFile& file : files) results.emplace_back(fail(ErrorCode::io, file.path));
  read_files(files, options, reading_threads(options, files.size()),
             [&](std::size_t i, const ReadOptions& each) {
               ReadOptions own = each;
               own.memory_bytes = options.memory_bytes / files.size();
               results[i] = read_trace(files[i].path, own);
             });
  std::vector<Trace> traces;
  std::vector<Note> left_out;
  std::optional<Error> first;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].has_value()) {
      traces.push_back(std::move(results[i]).value());
      continue;
    }
    const Error& error = results[i].error();
    if (!is_stranger(files[i], error)) return fail(error.code, error.message);
    if (!first) first = error;
    left_out.push_back({"file_left_out", {{"why", error.message}}});
  }
  if (traces.empty()) return fail(first->code, first->message);
  for (Note& note : left_out) traces[0].coverage.notes.push_back(std::move(note));
  std::vector<std::optional<std::int64_t>> ranks;
  for (const Trace& trace : traces) ranks.push_back(trace.info.rank);
  std::vector<Trace> ordered;
  for (std::size_t place : order_by_rank(ranks)) ordered.push_back(std::move(traces[place]));
  return ordered;
}

}  // namespace mfu
