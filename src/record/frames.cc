#include "record/frames.h"

#include <algorithm>

#include "base/crc32c.h"

namespace mfu {

namespace {

constexpr std::string_view kMark = "\xF5MFU";
constexpr std::size_t kHead = 16;  // mark, kind, length, checksum
// Limits the work for a file full of false marks, which otherwise grows with the square of its
// size.
constexpr std::size_t kMostEffort = 64u << 20;

void put_word(std::string& to, std::uint32_t word) {
  for (int shift = 0; shift < 32; shift += 8) to += static_cast<char>(word >> shift);
}

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    word |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return word;
}

}  // namespace

void append_frame(std::string& to, FrameKind kind, std::string_view payload) {
  std::size_t start = to.size();
  to += kMark;
  put_word(to, static_cast<std::uint32_t>(kind));
  put_word(to, static_cast<std::uint32_t>(payload.size()));
  std::uint32_t sum = crc32c(payload, crc32c(std::string_view(to).substr(start + 4, 8)));
  put_word(to, sum);
  to += payload;
}

bool FrameReader::whole_at(std::size_t at, FrameKind& kind, std::string_view& payload) {
  if (bytes_.size() - at < kHead || bytes_.substr(at, kMark.size()) != kMark) return false;
  std::size_t length = word_at(bytes_, at + 8);
  if (length > kMostPayload || length > bytes_.size() - at - kHead) return false;
  payload = bytes_.substr(at + kHead, length);
  if (crc32c(payload, crc32c(bytes_.substr(at + 4, 8))) != word_at(bytes_, at + 12)) {
    effort_ += length;
    return false;
  }
  kind = static_cast<FrameKind>(word_at(bytes_, at + 4));
  return true;
}

bool FrameReader::next(FrameKind& kind, std::string_view& payload) {
  std::size_t start = std::min(at_, bytes_.size());
  for (std::size_t at = start; at < bytes_.size() && effort_ <= kMostEffort; ++at) {
    at = bytes_.find(kMark, at);
    if (at == std::string_view::npos) break;
    if (!whole_at(at, kind, payload)) continue;
    if (at > start && damaged_bytes_ == 0) damaged_at_ = start;
    damaged_bytes_ += at - start;
    at_ = at + kHead + payload.size();
    return true;
  }
  // No whole frame follows. Most likely the writer did not finish the last one.
  cut_bytes_ += bytes_.size() - start;
  at_ = bytes_.size();
  return false;
}

Encoder& Encoder::count(std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) bytes_ += static_cast<char>(number | 0x80);
  bytes_ += static_cast<char>(number);
  return *this;
}

Encoder& Encoder::number(std::int64_t number) {
  return count((static_cast<std::uint64_t>(number) << 1) ^
               static_cast<std::uint64_t>(number >> 63));
}

Encoder& Encoder::text(std::string_view text) {
  count(text.size());
  bytes_ += text;
  return *this;
}

std::uint64_t FrameDecoder::count() {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
    unsigned char byte = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    number |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return number;
  }
  good_ = false;
  bytes_ = {};
  return 0;
}

std::int64_t FrameDecoder::number() {
  std::uint64_t folded = count();
  return static_cast<std::int64_t>((folded >> 1) ^ (~(folded & 1) + 1));
}

std::string_view FrameDecoder::text() {
  std::uint64_t size = count();
  if (size > bytes_.size()) {
    good_ = false;
    bytes_ = {};
    return {};
  }
  std::string_view text = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
  return text;
}

}  // namespace mfu
