// Interned texts: every name, shape list and call stack of a trace is kept only once. Texts are
// looked up by their bytes in the file, with escapes, so a name that was seen before costs one hash
// and one comparison. Texts that differ only in their escapes get the same id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/column.h"

namespace mfu {

// Byte strings, numbered in the order in which they came. It uses open addressing over one arena.
class ByteStrings {
 public:
  explicit ByteStrings(const SpillHandle& spill);
  // The number of these bytes. If they are new, they are added if `may_add`, otherwise the result
  // is UINT32_MAX.
  std::uint32_t find_or_add(std::string_view bytes, bool may_add);
  std::string_view at(std::uint32_t number) const {
    return {arena_.data() + begin_[number], begin_[number + 1] - begin_[number]};
  }
  std::uint32_t count() const { return static_cast<std::uint32_t>(begin_.size() - 1); }
  std::uint64_t size_bytes() const { return arena_.size(); }
  void drop_lookup();
  void blank(std::uint32_t number, std::size_t begin, std::size_t size) {
    std::fill_n(arena_.data() + begin_[number] + begin, size, '*');
  }

 private:
  struct Slot {
    std::uint32_t tag = 0;     // upper half of the hash
    std::uint32_t number = 0;  // number + 1; 0 means free
  };
  void grow_slots();
  Column<char> arena_;
  Column<std::uint64_t> begin_;
  Column<std::uint64_t> hashes_;
  Column<Slot> slots_;
};

class Texts {
 public:
  static constexpr std::uint64_t kMostBytes = 256u << 20;
  static constexpr std::uint32_t kMostTexts = 1u << 22;

  explicit Texts(const SpillHandle& spill);

  // The id for the text between the quotes of a JSON string.
  std::uint32_t intern_raw(std::string_view raw);
  // The id of a text without escapes, or whose escapes were resolved before.
  std::uint32_t intern(std::string_view text);

  std::string_view text(std::uint32_t id) const { return texts_.at(id); }
  std::uint32_t count() const { return texts_.count(); }
  std::uint64_t dropped() const { return dropped_; }
  void drop_lookup();  // call it when reading is over
  // Overwrites part of a text. Only after drop_lookup(), because the text can then no longer be
  // found by its bytes.
  void blank(std::uint32_t id, std::size_t begin, std::size_t size) {
    texts_.blank(id, begin, size);
  }

 private:
  ByteStrings texts_;
  ByteStrings spellings_;           // raw strings that differ from their text
  Column<std::uint32_t> meanings_;  // for each spelling, the id of its text
  std::uint64_t dropped_ = 0;
};

// The text that the raw bytes of a JSON string stand for. Escapes are resolved. Single surrogates,
// bytes that are not UTF-8 and control characters are replaced.
std::string unescape(std::string_view raw);

// A hash of 64 well-mixed bits. It is the same on all machines with the same byte order.
std::uint64_t hash_bytes(std::string_view bytes);

}  // namespace mfu
