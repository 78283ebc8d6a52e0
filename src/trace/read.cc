#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/text.h"
#include "base/threads.h"
#include "trace/chunks.h"
#include "trace/link.h"
#include "trace/source.h"
#include "trace/spill.h"
#include "trace/trace.h"

namespace mfu {
namespace {

bool cancelled(const ReadOptions& options) {
  return options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed);
}

// Reports the progress, at most ten times a second.
class ProgressReporter {
 public:
  explicit ProgressReporter(std::function<void(std::uint64_t)> report)
      : report_(std::move(report)) {}
  void at(std::uint64_t bytes) {
    if (!report_) return;
    auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    report_(bytes);
  }

 private:
  std::function<void(std::uint64_t)> report_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

struct Reading {
  std::uint64_t json_bytes = 0;  // taken by the document reader
  bool cancelled = false;
};

unsigned threads_for_one(const ReadOptions& options) {
  constexpr unsigned kMost = 16;  // a single thread puts together what the others have read
  unsigned threads = options.threads != 0 ? options.threads : usable_cores();
  return std::clamp(threads, 1u, kMost);
}

// Gives the chunks to the document, one after another. What the document leaves is given again with
// the next chunk. If one event is longer than a chunk, it is given again only after as much more
// text, so that it is not read for every chunk.
Reading read_chunks(ByteSource& source, DocumentReader& document, const ReadOptions& options,
                    ProgressReporter& progress) {
  Reading reading;
  std::string left;
  std::size_t wanted = 0;  // bytes that `left` must have before it is read again
  ChunkReader chunks(source, threads_for_one(options), options.cancel);
  while (const Chunk* chunk = chunks.next()) {
    if (cancelled(options)) {
      reading.cancelled = true;
      return reading;
    }
    progress.at(chunk->file_bytes);
    // What follows the document tells whether the archive was complete. If it is not a trace,
    // nothing tells.
    if (document.refused()) break;
    if (document.over()) continue;
    if (left.empty() && chunk->clean && document.take_events(chunk->text(), chunk->events)) {
      reading.json_bytes += chunk->size;
      continue;
    }
    std::string_view text = chunk->text();
    if (!left.empty()) {
      left.append(text);
      if (left.size() < wanted && !chunk->last) continue;
      text = left;
    }
    const char* end = text.data() + text.size();
    const char* rest = document.take(text.data(), end, chunk->last);
    auto size = static_cast<std::size_t>(end - rest);
    reading.json_bytes += text.size() - size;
    wanted = rest == text.data() ? 2 * size : 0;
    left = std::string(rest, size);
  }
  return reading;
}

void note_oddities(Trace& trace, const DocumentCounts& counts, std::uint64_t fused_all_reduces) {
  TraceCoverage& coverage = trace.coverage;
  coverage.events = counts.events + counts.malformed;
  coverage.skipped_events += counts.malformed;
  coverage.repaired_events = counts.repaired;
  coverage.texts_dropped = trace.texts->dropped();
  for (auto [code, count] : {std::pair("events_unusable", coverage.skipped_events),
                             std::pair("events_repaired", coverage.repaired_events),
                             std::pair("names_not_kept", coverage.texts_dropped),
                             std::pair("events_before_launch", coverage.before_launch),
                             std::pair("fused_all_reduces", fused_all_reduces),
                             std::pair("events_clipped", std::uint64_t{trace.clips.size()})}) {
    if (count == 0) continue;
    coverage.notes.push_back({code, {{"count", static_cast<std::int64_t>(count)}}});
  }
}

Result<void> judge(const DocumentReader& document, const ByteSource& source, Trace& trace,
                   const std::string& name) {
  TraceCoverage& coverage = trace.coverage;
  DocumentEnd end = document.end();
  std::string problem = source.problem().value_or("");
  std::string because = problem.empty() ? "" : fmt::format(" ({})", problem);
  if (source.refused()) {
    return fail(ErrorCode::unsupported, fmt::format("{}: is not read: {}", name, problem));
  }
  if (end == DocumentEnd::empty) {
    return fail(
        ErrorCode::malformed,
        fmt::format("{}: is empty{}: give a trace that torch.profiler exported", name, because));
  }
  if (end == DocumentEnd::no_document) {
    return fail(
        ErrorCode::malformed,
        fmt::format(
            "{}: is not a profiler trace: no list \"traceEvents\" in it{}. Give a file that "
            "torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote",
            name, because));
  }
  if (end == DocumentEnd::truncated || !problem.empty()) {
    std::string why = problem.empty() ? "the file ends in the middle" : problem;
    coverage.truncated = why;
    coverage.truncated_at_byte = coverage.json_bytes;
  }
  if (end == DocumentEnd::open_list) {
    coverage.notes.push_back({"list_not_closed", {}});
  }
  if (document.counts().events == 0) {
    return fail(
        ErrorCode::malformed,
        fmt::format("{}: holds no event{}: was the profiler stopped before it was exported?", name,
                    coverage.truncated
                        ? " before it ends, at byte " + std::to_string(coverage.truncated_at_byte)
                        : ""));
  }
  return {};
}

Result<Trace> read_source(ByteSource& source, const std::string& name, const ReadOptions& options,
                          ProgressReporter& progress) {
  TraceBuilder builder(std::make_shared<Spill>(options.memory_bytes));
  DocumentReader document(builder);
  Reading reading = read_chunks(source, document, options, progress);
  if (reading.cancelled || cancelled(options)) {
    return fail(ErrorCode::io, fmt::format("{}: reading was cancelled", name));
  }
  Trace& trace = builder.trace();
  trace.info.path = name;
  trace.coverage.file_bytes = source.file_bytes();
  trace.coverage.json_bytes = reading.json_bytes;
  MFU_TRY(judge(document, source, trace, name));
  link_trace(trace, builder.unlinked(), threads_for_one(options), options.cancel);
  if (cancelled(options)) {
    return fail(ErrorCode::io, fmt::format("{}: reading was cancelled", name));
  }
  trace.texts->drop_lookup();
  hide_secrets_in_texts(trace);
  note_oddities(trace, document.counts(), builder.fused_all_reduces());
  return std::move(trace);
}

}  // namespace

Result<Trace> read_trace_bytes(std::string_view bytes, const std::string& name,
                               const ReadOptions& options) {
  std::unique_ptr<ByteSource> source = memory_source(bytes);
  ProgressReporter progress({});
  return read_source(*source, name, options, progress);
}

Result<Trace> read_trace(const std::string& path, const ReadOptions& options) {
  std::unique_ptr<ByteSource> source = MFU_TRY(open_source(path, options.cancel));
  std::error_code error;
  std::uintmax_t size = std::filesystem::file_size(path, error);
  std::function<void(std::uint64_t)> report;
  if (options.progress) {
    report = [&options, size, error](std::uint64_t bytes) {
      std::optional<std::uint64_t> whole;
      if (!error) whole = size;
      options.progress({.bytes_done = bytes, .bytes_whole = whole});
    };
  }
  ProgressReporter progress(std::move(report));
  std::string name = options.name.empty() ? path : options.name;
  return read_source(*source, path == "-" ? "standard input" : name, options, progress);
}

}  // namespace mfu
