// A file of parts: one line that names the format, then frames, each with a checksum.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "attribution/part_archive.h"
#include "attribution/part_bytes.h"
#include "attribution/parts.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "base/zip.h"
#include "trace/many.h"

namespace mfu {

namespace {

constexpr std::string_view kPartMagic = "mfu-part ";
constexpr std::uint64_t kPartVersion = 2;
constexpr std::size_t kLongestLine = 64;
// The largest frame when unpacked: enough for a few thousand million events.
constexpr std::uint64_t kMostRaw = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostTraces = 1u << 20;

enum class PartFrame : std::uint32_t { head = 1, outline = 2, ranks = 3, end = 4 };

struct FrameHeader {
  std::uint32_t kind = 0, checksum = 0;
  std::uint64_t packed_bytes = 0, raw_bytes = 0;
};
constexpr std::size_t kFrameHeaderBytes = 24;

// Little-endian, like all machines that we build for.
std::string header_bytes(const FrameHeader& header) {
  std::string bytes(kFrameHeaderBytes, '\0');
  std::memcpy(bytes.data(), &header.kind, 4);
  std::memcpy(bytes.data() + 4, &header.checksum, 4);
  std::memcpy(bytes.data() + 8, &header.packed_bytes, 8);
  std::memcpy(bytes.data() + 16, &header.raw_bytes, 8);
  return bytes;
}

std::uint32_t checksum_of(FrameHeader header, std::string_view packed) {
  header.checksum = 0;
  return crc32c(packed, crc32c(header_bytes(header)));
}

void append_part_frame(std::string& to, PartFrame kind, const std::string& raw) {
  std::string packed = zipped(raw);
  FrameHeader header{static_cast<std::uint32_t>(kind), 0, packed.size(), raw.size()};
  header.checksum = checksum_of(header, packed);
  to += header_bytes(header);
  to += packed;
}

// Reads one file from the front. Sizes that it claims are checked against its real size.
class PartFile {
 public:
  explicit PartFile(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    struct stat status{};
    if (stat(path.c_str(), &status) == 0) size_ = static_cast<std::uint64_t>(status.st_size);
  }
  bool is_open() const { return file_.is_open(); }
  std::uint64_t at() const { return at_; }

  void go_to(std::uint64_t byte) {
    file_.seekg(static_cast<std::streamoff>(byte));
    at_ = byte;
  }

  Error refusal(std::string_view why) const {
    return {
        ErrorCode::malformed,
        fmt::format("{}: is not used: {}; make it again with mfu explain --partial", path_, why)};
  }

  Result<void> read_line() {
    std::string line;
    std::getline(file_, line);
    std::string_view rest = line;
    if (line.size() > kLongestLine || !rest.starts_with(kPartMagic)) {
      return Failure{refusal(size_ == 0 ? "it is empty" : "it is no part of mfu's")};
    }
    rest.remove_prefix(kPartMagic.size());
    std::string_view number = rest.substr(0, rest.find(' '));
    std::string_view writer = rest.substr(std::min(number.size() + 1, rest.size()));
    std::optional<std::uint64_t> version = parse_count(number);
    if (!version) return Failure{refusal("its first line is damaged")};
    if (*version != kPartVersion) {
      return Failure{
          refusal(fmt::format("it is in format {}, written by mfu {}, and this mfu reads {}",
                              *version, printable(writer, 40), kPartVersion))};
    }
    at_ = line.size() + 1;
    return {};
  }

  struct Frame {
    PartFrame kind = PartFrame::end;
    std::string raw;
  };
  Result<Frame> next() {
    if (size_ < at_ + kFrameHeaderBytes) {
      return Failure{refusal(fmt::format("it is cut off at byte {}", size_))};
    }
    std::string bytes(kFrameHeaderBytes, '\0');
    file_.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    FrameHeader header;
    std::memcpy(&header.kind, bytes.data(), 4);
    std::memcpy(&header.checksum, bytes.data() + 4, 4);
    std::memcpy(&header.packed_bytes, bytes.data() + 8, 8);
    std::memcpy(&header.raw_bytes, bytes.data() + 16, 8);
    std::uint64_t left = size_ - at_ - kFrameHeaderBytes;
    if (header.packed_bytes > left) {
      return Failure{refusal(fmt::format("it is damaged or cut off after byte {}", at_))};
    }
    std::string packed(header.packed_bytes, '\0');
    file_.read(packed.data(), static_cast<std::streamsize>(packed.size()));
    bool known = header.kind >= 1 && header.kind <= 4 && header.raw_bytes <= kMostRaw;
    if (!file_ || !known || checksum_of(header, packed) != header.checksum) {
      return Failure{refusal(fmt::format("it is damaged after byte {}", at_))};
    }
    Result<std::string> raw = unzipped(packed, header.raw_bytes);
    if (!raw.has_value()) return Failure{refusal(raw.error().message)};
    at_ += kFrameHeaderBytes + header.packed_bytes;
    return Frame{static_cast<PartFrame>(header.kind), std::move(raw).value()};
  }

 private:
  std::string path_;
  std::ifstream file_;
  std::uint64_t size_ = 0, at_ = 0;
};

template <typename A, typename P>
void lay_head(A& archive, P& content, std::uint64_t& traces) {
  auto& window = content.window;
  archive.maybe(window.policy, [](auto& a, auto& policy) { a.choice(policy, 3); });
  archive.maybe(window.from_ns, [](auto& a, auto& ns) { a.number(ns); });
  archive.maybe(window.to_ns, [](auto& a, auto& ns) { a.number(ns); });
  archive.flag(window.from_relative);
  archive.flag(window.to_relative);
  archive.flag(window.whole_steps);
  archive.each(content.left_out, [](auto& a, auto& text) { a.text(text); });
  archive.each(content.refused, [](auto& a, auto& text) { a.text(text); });
  archive.count(traces);
}

Result<PartsContent::Entry> read_entry(PartFile& file, const std::string& path) {
  PartsContent::Entry entry;
  PartFile::Frame first = MFU_TRY(file.next());
  if (first.kind != PartFrame::outline) return Failure{file.refusal("its frames are out of order")};
  Result<TraceOutline> outline = unpack_outline(first.raw);
  if (!outline.has_value()) return Failure{file.refusal(outline.error().message)};
  entry.outline = std::move(outline).value();
  entry.stored = StoredRanks{path, file.at()};
  PartFile::Frame second = MFU_TRY(file.next());
  if (second.kind != PartFrame::ranks) return Failure{file.refusal("its frames are out of order")};
  Result<std::vector<RankPart>> ranks = unpack_ranks(second.raw, entry.outline);
  if (!ranks.has_value()) return Failure{file.refusal(ranks.error().message)};
  return entry;
}

}  // namespace

bool is_part_file(const std::string& path) {
  if (path.ends_with(kPartEnding)) return true;
  struct stat status{};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string start(kPartMagic.size(), '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return file && start == kPartMagic;
}

Result<PartsContent> read_part_file(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    return fail(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                fmt::format("{}: {}", path, std::strerror(errno)));
  }
  PartFile file(path);
  if (!S_ISREG(status.st_mode)) return Failure{file.refusal("it is no regular file")};
  if (!file.is_open()) {
    return fail(ErrorCode::io, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  MFU_TRY(file.read_line());
  PartFile::Frame head = MFU_TRY(file.next());
  PartsContent content;
  content.timeline = true;
  std::uint64_t traces = 0;
  PartReader reader(head.raw);
  lay_head(reader, content, traces);
  if (head.kind != PartFrame::head || !reader.good() || !reader.done() || traces > kMostTraces) {
    return Failure{file.refusal("its head is damaged")};
  }
  for (std::uint64_t i = 0; i < traces; ++i) {
    content.traces.push_back(MFU_TRY(read_entry(file, path)));
  }
  PartFile::Frame end = MFU_TRY(file.next());
  if (end.kind != PartFrame::end) return Failure{file.refusal("its frames are out of order")};
  return content;
}

Result<std::vector<RankPart>> read_stored(const PartsContent::Entry& entry) {
  PartFile file(entry.stored->path);
  file.go_to(entry.stored->at_byte);
  PartFile::Frame frame = MFU_TRY(file.next());
  Result<std::vector<RankPart>> ranks = unpack_ranks(frame.raw, entry.outline);
  if (!ranks.has_value()) return Failure{file.refusal("it changed while it was read")};
  return ranks;
}

Result<std::string> part_file_bytes(const PartsContent& content) {
  std::string bytes = fmt::format("{}{} {}\n", kPartMagic, kPartVersion, MFU_VERSION);
  PartWriter head;
  std::uint64_t traces = content.traces.size();
  lay_head(head, content, traces);
  append_part_frame(bytes, PartFrame::head, head.bytes());
  for (const PartsContent::Entry& entry : content.traces) {
    append_part_frame(bytes, PartFrame::outline, pack_outline(entry.outline));
    std::string ranks;
    if (entry.stored) {
      ranks = pack_ranks(MFU_TRY(read_stored(entry)));
    } else {
      ranks = pack_ranks(entry.ranks);
    }
    if (ranks.size() > kMostRaw) {
      return fail(ErrorCode::unsupported,
                  fmt::format("{}: too many device events for a part; choose a --window",
                              entry.outline.path));
    }
    append_part_frame(bytes, PartFrame::ranks, ranks);
  }
  append_part_frame(bytes, PartFrame::end, {});
  return bytes;
}

}  // namespace mfu
