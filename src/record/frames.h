// The frames of a process's file. After eight bytes of magic come frames of mark, kind, length,
// checksum and payload. They are appended and never changed. A reader skips damaged bytes up to the
// next whole frame. Numbers inside are LEB128.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mfu {

inline constexpr std::string_view kFileMagic = "MFURUN1\n";
inline constexpr std::size_t kMostPayload = 1u << 20;

// mfu 0.1.0 wrote `steps`. It is still read, but no longer written.
enum class FrameKind : std::uint32_t {
  process = 1,
  steps = 2,
  totals = 3,
  facts = 4,
  status = 5,
  steps_with_passes = 6,
  phases = 7,
  window = 8
};

void append_frame(std::string& to, FrameKind kind, std::string_view payload);

// Walks the frames of a file's bytes.
class FrameReader {
 public:
  explicit FrameReader(std::string_view bytes) : bytes_(bytes) {}

  // False at the end. `kind` may be one that this version does not know.
  bool next(FrameKind& kind, std::string_view& payload);

  std::size_t damaged_bytes() const { return damaged_bytes_; }  // passed over, between frames
  std::size_t damaged_at() const { return damaged_at_; }        // the first of them
  std::size_t cut_bytes() const { return cut_bytes_; }          // of an unfinished last frame

 private:
  bool whole_at(std::size_t at, FrameKind& kind, std::string_view& payload);

  std::string_view bytes_;
  std::size_t at_ = kFileMagic.size();
  std::size_t effort_ = 0;  // bytes checksummed in vain, bounded
  std::size_t damaged_bytes_ = 0, damaged_at_ = 0, cut_bytes_ = 0;
};

class Encoder {
 public:
  Encoder& count(std::uint64_t number);
  Encoder& number(std::int64_t number);  // zigzag: small where it is near 0
  Encoder& text(std::string_view text);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what Encoder wrote. A missing value reads as 0 or empty, and good() is false from then on.
class FrameDecoder {
 public:
  explicit FrameDecoder(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t count();
  std::int64_t number();
  std::string_view text();
  bool good() const { return good_; }
  bool done() const { return bytes_.empty(); }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace mfu
