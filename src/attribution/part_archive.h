// Two classes with the same members: one writes a value, the other reads it back. So the layout of
// a part is written down once (part_bytes.cc), and both ways agree.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mfu/units.h"
#include "record/frames.h"

namespace mfu {

class PartWriter {
 public:
  static constexpr bool kReads = false;
  const std::string& bytes() const { return encoder_.bytes(); }
  bool good() const { return true; }

  void count(std::uint64_t value) { encoder_.count(value); }
  void small(std::uint32_t value) { encoder_.count(value); }
  void number(std::int64_t value) { encoder_.number(value); }
  void flag(bool value) { encoder_.count(value ? 1 : 0); }
  void text(const std::string& value) { encoder_.text(value); }
  // Stored relative to 1, the most frequent value.
  void real(double value) {
    encoder_.count(std::bit_cast<std::uint64_t>(value) ^ std::bit_cast<std::uint64_t>(1.0));
  }
  void flop(const FlopCount& value) {
    encoder_.count(value.low());
    encoder_.count(value.high());
  }
  template <typename Enum>
  void choice(Enum value, std::size_t) {
    encoder_.count(static_cast<std::uint64_t>(value));
  }
  template <typename T, typename Give>
  void maybe(const std::optional<T>& value, Give give) {
    flag(value.has_value());
    if (value) give(*this, *value);
  }
  template <typename T, typename Give>
  void each(const std::vector<T>& values, Give give) {
    encoder_.count(values.size());
    for (const T& value : values) give(*this, value);
  }
  // One column of rows, whose number was written before.
  template <typename T, typename Give>
  void column(const std::vector<T>& rows, Give give) {
    for (const T& row : rows) give(*this, row);
  }
  template <typename T>
  void rows(const std::vector<T>& rows) {
    encoder_.count(rows.size());
  }

 private:
  Encoder encoder_;
};

class PartReader {
 public:
  static constexpr bool kReads = true;
  explicit PartReader(std::string_view bytes) : decoder_(bytes) {}
  bool good() const { return good_ && decoder_.good(); }
  bool done() const { return decoder_.done(); }
  void refuse() { good_ = false; }

  void count(std::uint64_t& value) { value = decoder_.count(); }
  void small(std::uint32_t& value) {
    std::uint64_t number = decoder_.count();
    if (number > UINT32_MAX) refuse();
    value = static_cast<std::uint32_t>(number);
  }
  void number(std::int64_t& value) { value = decoder_.number(); }
  void flag(bool& value) {
    std::uint64_t number = decoder_.count();
    if (number > 1) refuse();
    value = number == 1;
  }
  void text(std::string& value) { value = decoder_.text(); }
  void real(double& value) {
    value = std::bit_cast<double>(decoder_.count() ^ std::bit_cast<std::uint64_t>(1.0));
  }
  void flop(FlopCount& value) {
    std::uint64_t low = decoder_.count();
    value = FlopCount::from_halves(decoder_.count(), low);
  }
  template <typename Enum>
  void choice(Enum& value, std::size_t choices) {
    std::uint64_t number = decoder_.count();
    if (number >= choices) {
      refuse();
      return;
    }
    value = static_cast<Enum>(number);
  }
  template <typename T, typename Give>
  void maybe(std::optional<T>& value, Give give) {
    bool there = false;
    flag(there);
    if (there && good()) give(*this, value.emplace());
  }
  // Grows while it reads, so that a false number of values costs no memory.
  template <typename T, typename Give>
  void each(std::vector<T>& values, Give give) {
    std::uint64_t size = decoder_.count();
    for (std::uint64_t i = 0; i < size && good(); ++i) give(*this, values.emplace_back());
  }
  template <typename T, typename Give>
  void column(std::vector<T>& rows, Give give) {
    for (std::size_t i = 0; i < rows.size() && good(); ++i) give(*this, rows[i]);
  }
  // Each row takes at least one byte.
  template <typename T>
  void rows(std::vector<T>& rows) {
    std::uint64_t size = decoder_.count();
    if (size > decoder_.left()) {
      refuse();
      return;
    }
    rows.resize(size);
  }

 private:
  FrameDecoder decoder_;
  bool good_ = true;
};

}  // namespace mfu
