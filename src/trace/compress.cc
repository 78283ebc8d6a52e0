#include <fmt/format.h>
#include <isa-l/igzip_lib.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "mfu/trace.h"

namespace mfu {

namespace {

// Replaces each occurrence of a hidden text by stars. A line holds whole values.
void hide_in(std::string& line, const std::vector<std::string>& hidden) {
  for (const std::string& each : hidden) {
    for (std::size_t at = line.find(each); at != std::string::npos; at = line.find(each, at + 8)) {
      line.replace(at, each.size(), "[hidden]");
    }
  }
}

class Deflater {
 public:
  explicit Deflater(std::ofstream& out) : out_(out), level_(ISAL_DEF_LVL1_DEFAULT) {
    isal_deflate_init(&stream_);
    stream_.level = 1;
    stream_.level_buf = level_.data();
    stream_.level_buf_size = static_cast<std::uint32_t>(level_.size());
    stream_.gzip_flag = IGZIP_GZIP;
  }
  void add(std::string& text, bool last) {
    stream_.next_in = reinterpret_cast<std::uint8_t*>(text.data());
    stream_.avail_in = static_cast<std::uint32_t>(text.size());
    stream_.end_of_stream = last ? 1 : 0;
    do {
      stream_.next_out = buffer_.data();
      stream_.avail_out = static_cast<std::uint32_t>(buffer_.size());
      isal_deflate(&stream_);
      out_.write(reinterpret_cast<const char*>(buffer_.data()),
                 static_cast<std::streamsize>(buffer_.size() - stream_.avail_out));
    } while (stream_.avail_out == 0);
  }

 private:
  std::ofstream& out_;
  std::vector<std::uint8_t> level_;
  std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(1u << 18);
  isal_zstream stream_{};
};

}  // namespace

Result<void> compress_trace(const std::string& from, const std::string& to,
                            const std::vector<std::string>& hidden) {
  constexpr std::size_t kChunkBytes = 1u << 20;
  std::ifstream in(from, std::ios::binary);
  std::string part = to + ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  if (!in || !out) return fail(ErrorCode::io, fmt::format("{}: cannot be compressed", from));
  Deflater deflater(out);
  std::string chunk, line;
  while (std::getline(in, line)) {
    hide_in(line, hidden);
    chunk += line;
    chunk += '\n';
    if (chunk.size() < kChunkBytes) continue;
    deflater.add(chunk, false);
    chunk.clear();
  }
  deflater.add(chunk, true);
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(part, to, error);
  if (!out || error) {
    std::filesystem::remove(part, error);
    return fail(ErrorCode::io, fmt::format("{}: cannot be written", to));
  }
  return {};
}

}  // namespace mfu
