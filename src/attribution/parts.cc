#include "attribution/parts.h"

#include <fmt/format.h>

#include "attribution/attribute.h"
#include "base/file.h"
#include "trace/many.h"

namespace mfu {

namespace {

using Entry = PartsContent::Entry;

bool same_window(const WindowQuestion& a, const WindowQuestion& b) {
  return a.policy == b.policy && a.from_ns == b.from_ns && a.to_ns == b.to_ns &&
         a.from_relative == b.from_relative && a.to_relative == b.to_relative &&
         a.whole_steps == b.whole_steps;
}

// What one of the files gave.
using Piece = Result<PartsContent>;

Piece read_piece(const std::string& path, const AttributionOptions& options,
                 const ReadOptions& reading) {
  if (path != "-" && is_part_file(path)) return read_part_file(path);
  Trace trace = MFU_TRY(read_trace(path, reading));
  constexpr std::size_t kRowsWorthThreads = 1u << 14;  // with fewer, a thread does not pay
  bool worth = trace.device.size() + trace.host.size() >= kRowsWorthThreads;
  TracePart part = MFU_TRY(condense(trace, options, worth ? std::max(1u, reading.threads) : 1));
  PartsContent content;
  content.window = options.window;
  content.timeline = options.timeline;
  content.traces.push_back({std::move(part.outline), std::move(part.ranks), std::nullopt});
  return content;
}

void append(PartsContent& whole, PartsContent piece) {
  for (Entry& entry : piece.traces) whole.traces.push_back(std::move(entry));
  for (std::string& note : piece.left_out) whole.left_out.push_back(std::move(note));
  for (std::string& note : piece.refused) whole.refused.push_back(std::move(note));
  whole.timeline = whole.timeline && piece.timeline;
}

Result<void> check_window(const PartsContent& piece, const WindowQuestion& asked,
                          const std::string& path) {
  if (!asked.policy || same_window(piece.window, asked)) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: has its window already; give --window with --partial, where the "
                          "traces are",
                          path));
}

}  // namespace

Parts::Parts(std::unique_ptr<PartsContent> content) : content_(std::move(content)) {}
Parts::~Parts() = default;
Parts::Parts(Parts&&) noexcept = default;
Parts& Parts::operator=(Parts&&) noexcept = default;

std::size_t Parts::traces() const {
  return content_->traces.size();
}

std::vector<std::pair<std::string, std::string>> Parts::secrets() const {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Entry& entry : content_->traces) {
    for (const std::string& each : entry.outline.secrets) {
      found.emplace_back(entry.outline.path, each);
    }
  }
  return found;
}

const std::vector<std::string>& Parts::refused() const {
  return content_->refused;
}

Result<Parts> gather(const std::vector<std::string>& paths, const AttributionOptions& options,
                     const ReadOptions& reading) {
  std::vector<ListedFile> files = MFU_TRY(list_files(paths));
  std::vector<Piece> pieces;
  for (const ListedFile& file : files) pieces.emplace_back(fail(ErrorCode::io, file.path));
  unsigned threads = reading_threads(reading, files.size());
  read_files(files, reading, threads, [&](std::size_t i, const ReadOptions& each) {
    ReadOptions own = each;
    // a trace is released before the next one is read
    own.memory_bytes = reading.memory_bytes / threads;
    pieces[i] = read_piece(files[i].path, options, own);
  });
  auto whole = std::make_unique<PartsContent>();
  whole->window = options.window;
  whole->timeline = true;
  std::optional<Error> first;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].has_value()) {
      MFU_TRY(check_window(*pieces[i], options.window, files[i].path));
      append(*whole, std::move(pieces[i]).value());
      continue;
    }
    const Error& error = pieces[i].error();
    if (error.code != ErrorCode::malformed) return fail(error.code, error.message);
    if (!first) first = error;
    bool stranger = !is_part_file(files[i].path) && is_stranger(files[i], error);
    (stranger ? whole->left_out : whole->refused).push_back(error.message);
  }
  if (whole->traces.empty()) return fail(first->code, first->message);
  return Parts(std::move(whole));
}

std::uint64_t Parts::json_bytes() const {
  std::uint64_t sum = 0;
  for (const Entry& entry : content_->traces) sum += entry.outline.json_bytes;
  return sum;
}

Result<std::uint64_t> write_parts(const Parts& parts, const std::string& path) {
  if (!parts.content().timeline) {
    return fail(ErrorCode::invalid_argument, "a part needs the timeline: gather it with one");
  }
  std::string bytes = MFU_TRY(part_file_bytes(parts.content()));
  MFU_TRY(write_file(path, bytes));
  return bytes.size();
}

Result<Attribution> attribute(const Parts& parts, const AttributionOptions& options) {
  const PartsContent& content = parts.content();
  std::vector<std::optional<std::int64_t>> ranks;
  for (const Entry& entry : content.traces) ranks.push_back(entry.outline.rank);
  std::vector<std::size_t> order = order_by_rank(ranks);
  // Files in folders that are no traces are reported with the first trace that was given.
  TraceOutline first = content.traces.front().outline;
  for (const std::string& why : content.left_out) {
    first.notes.push_back({"file_left_out", {{"why", why}}});
  }
  std::vector<const TraceOutline*> outlines;
  for (std::size_t place : order) {
    outlines.push_back(place == 0 ? &first : &content.traces[place].outline);
  }
  Attribution whole = MFU_TRY(attribute(
      outlines,
      [&](std::size_t trace) -> Result<std::vector<RankPart>> {
        const Entry& entry = content.traces[order[trace]];
        if (entry.stored) return read_stored(entry);
        return entry.ranks;
      },
      options));
  whole.partial = whole.partial || !content.refused.empty();
  for (const std::string& why : content.refused) {
    whole.notes.push_back({"part_refused", {{"why", why}}});
  }
  return whole;
}

}  // namespace mfu
