// Interned texts: every name, shape list and call stack of a trace is kept once. Looked up by the
// bytes as they stand in the file (escapes and all), so that a name seen before costs a hash and a
// compare; texts that differ only in how they were escaped get the same id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/column.h"

namespace mfu {

// Byte strings, numbered in the order they came; open addressing over one arena.
class ByteStrings {
 public:
  explicit ByteStrings(const SpillHandle& spill);
  // The number of these bytes; added where they are new and `may_add`, else UINT32_MAX.
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
    std::uint32_t number = 0;  // + 1; 0: free
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

  // The id of what stands between the quotes of a JSON string.
  std::uint32_t intern_raw(std::string_view raw);
  // The id of a text that is what it says: plain, or unescaped before.
  std::uint32_t intern(std::string_view text);

  std::string_view text(std::uint32_t id) const { return texts_.at(id); }
  std::uint32_t count() const { return texts_.count(); }
  std::uint64_t dropped() const { return dropped_; }
  void drop_lookup();  // once reading is over
  // Overwrites part of a text; only after drop_lookup(), since it is not found by its bytes then.
  void blank(std::uint32_t id, std::size_t begin, std::size_t size) {
    texts_.blank(id, begin, size);
  }

 private:
  ByteStrings texts_;
  ByteStrings spellings_;           // raw strings that are not their own text
  Column<std::uint32_t> meanings_;  // of each spelling: the id of its text
  std::uint64_t dropped_ = 0;
};

// The text a JSON string's raw bytes stand for: escapes resolved; lone surrogates, bytes that are
// not UTF-8 and control characters replaced.
std::string unescape(std::string_view raw);

// 64 well-mixed bits of the bytes; the same on every machine of one byte order.
std::uint64_t hash_bytes(std::string_view bytes);

}  // namespace mfu
