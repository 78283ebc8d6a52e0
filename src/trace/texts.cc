#include "trace/texts.h"

#include <cstring>

#include "base/text.h"
#include "trace/stride.h"

namespace mfu {
namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t load(const char* at, std::size_t bytes) {
  std::uint64_t value = 0;
  if (bytes > 0) std::memcpy(&value, at, bytes);
  return value;
}

// Printable ASCII without a backslash: such a raw string equals its text.
bool is_plain(std::string_view raw) {
  return is_printable(raw.data(), raw.size()) && raw.find('\\') == std::string_view::npos;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The four digits after "\u", or -1.
int hex_code(std::string_view text) {
  if (text.size() < 4) return -1;
  int code = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    int digit = hex_digit(text[i]);
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  return code;
}

void append_utf8(std::string& out, std::uint32_t code) {
  if (!is_harmless(code)) {
    out += code == '\n' || code == '\t' ? ' ' : '?';
  } else if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// Appends the character for the escape that `rest` begins with (after the backslash). Returns how
// many bytes the escape has.
std::size_t append_escape(std::string& out, std::string_view rest) {
  if (rest.empty()) {
    out += '?';
    return 0;
  }
  if (rest[0] != 'u') {
    bool space = rest[0] == 'n' || rest[0] == 't' || rest[0] == 'r';
    bool control = rest[0] == 'b' || rest[0] == 'f';
    out += space ? ' ' : control ? '?' : static_cast<unsigned char>(rest[0]) < 0x80 ? rest[0] : '?';
    return 1;
  }
  int code = hex_code(rest.substr(1));
  if (code < 0) {
    out += '?';
    return 1;
  }
  auto unit = static_cast<std::uint32_t>(code);
  if (unit >= 0xd800 && unit < 0xdc00 && rest.size() >= 11 && rest[5] == '\\' && rest[6] == 'u') {
    int low = hex_code(rest.substr(7));
    if (low >= 0xdc00 && low < 0xe000) {
      append_utf8(out,
                  0x10000 + ((unit - 0xd800) << 10) + (static_cast<std::uint32_t>(low) - 0xdc00));
      return 11;
    }
  }
  append_utf8(out, unit >= 0xd800 && unit < 0xe000 ? '?' : unit);
  return 5;
}

}  // namespace

std::uint64_t hash_bytes(std::string_view bytes) {
  constexpr std::uint64_t kA = 0x9e3779b97f4a7c15, kB = 0xe7037ed1a0b428db;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t state = mix(left ^ kA, kB);
  for (; left > 16; left -= 16, at += 16) state = mix(load(at, 8) ^ state, load(at + 8, 8) ^ kA);
  std::uint64_t low = left >= 8 ? load(at, 8) : load(at, left);
  std::uint64_t high = left > 8 ? load(at + left - 8, 8) : 0;
  return mix(low ^ state, high ^ kB);
}

std::string unescape(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size();) {
    auto byte = static_cast<unsigned char>(raw[i]);
    if (raw[i] == '\\') {
      i += 1 + append_escape(out, raw.substr(i + 1));
    } else if (byte < 0x80) {
      append_utf8(out, byte);
      ++i;
    } else {
      std::size_t length = utf8_sequence_length(raw.substr(i));
      bool shown = length > 0 && is_harmless(utf8_code(raw.substr(i, length)));
      out += shown ? raw.substr(i, length) : "?";
      i += length == 0 ? 1 : length;
    }
  }
  return out;
}

ByteStrings::ByteStrings(const SpillHandle& spill)
    : arena_(spill), begin_(spill), hashes_(spill), slots_(spill) {
  begin_.push_back(0);
}

void ByteStrings::grow_slots() {
  std::size_t size = slots_.empty() ? 1024 : slots_.size() * 2;
  Column<Slot> slots = slots_.sibling();
  slots.resize(size);
  for (std::uint32_t number = 0; number < count(); ++number) {
    std::size_t at = hashes_[number] & (size - 1);
    while (slots[at].number != 0) at = (at + 1) & (size - 1);
    slots[at] = {.tag = static_cast<std::uint32_t>(hashes_[number] >> 32), .number = number + 1};
  }
  slots_ = std::move(slots);
}

std::uint32_t ByteStrings::find_or_add(std::string_view bytes, bool may_add) {
  if ((count() + 1) * 2 > slots_.size()) grow_slots();
  std::uint64_t hash = hash_bytes(bytes);
  auto tag = static_cast<std::uint32_t>(hash >> 32);
  std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at].number != 0; at = (at + 1) & mask) {
    if (slots_[at].tag == tag && this->at(slots_[at].number - 1) == bytes) {
      return slots_[at].number - 1;
    }
  }
  if (!may_add) return UINT32_MAX;
  std::uint32_t number = count();
  std::size_t begin = arena_.size();
  arena_.resize_uninitialized(begin + bytes.size());
  if (!bytes.empty()) std::memcpy(arena_.data() + begin, bytes.data(), bytes.size());
  begin_.push_back(arena_.size());
  hashes_.push_back(hash);
  slots_[at] = {.tag = tag, .number = number + 1};
  return number;
}

void ByteStrings::drop_lookup() {
  slots_.clear();
  hashes_.clear();
}

Texts::Texts(const SpillHandle& spill) : texts_(spill), spellings_(spill), meanings_(spill) {
  texts_.find_or_add("(name not kept)", true);
}

std::uint32_t Texts::intern(std::string_view text) {
  bool room = texts_.count() < kMostTexts && texts_.size_bytes() + text.size() <= kMostBytes;
  std::uint32_t id = texts_.find_or_add(text, room);
  if (id != UINT32_MAX) return id;
  ++dropped_;
  return 0;
}

std::uint32_t Texts::intern_raw(std::string_view raw) {
  std::uint32_t id = texts_.find_or_add(raw, false);
  // A raw spelling that equals another text means something else only if it is not plain.
  if (id != UINT32_MAX && raw.find('\\') == std::string_view::npos) return id;
  if (is_plain(raw)) return intern(raw);
  bool room = spellings_.count() < kMostTexts && spellings_.size_bytes() + raw.size() <= kMostBytes;
  std::uint32_t before = spellings_.count();
  std::uint32_t spelling = spellings_.find_or_add(raw, room);
  if (spelling == UINT32_MAX) return intern(unescape(raw));
  if (spelling == before) meanings_.push_back(intern(unescape(raw)));
  return meanings_[spelling];
}

void Texts::drop_lookup() {
  texts_.drop_lookup();
  spellings_ = ByteStrings(nullptr);
  meanings_.clear();
}

}  // namespace mfu
