// One column of a trace: a growing array of plain values. Once the columns of a Spill together
// exceed its budget, they move from memory to an unlinked temporary file, so a trace of any size
// needs bounded memory. Read it like a std::vector or a std::span.
//
//   mfu::Column<std::int64_t> start_ns;
//   start_ns.push_back(1);
//   for (std::int64_t start : start_ns) { ... }
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace mfu {

// What the columns of one trace share: how much memory they may use before they go to disk.
struct Spill;
using SpillHandle = std::shared_ptr<Spill>;

// Untyped storage of a column. If there is no disk space, it grows in memory.
class ColumnStorage {
 public:
  ColumnStorage() = default;
  explicit ColumnStorage(SpillHandle spill) : spill_(std::move(spill)) {}
  ~ColumnStorage() { release(); }
  ColumnStorage(ColumnStorage&& other) noexcept { swap(other); }
  ColumnStorage& operator=(ColumnStorage&& other) noexcept {
    swap(other);
    return *this;
  }
  ColumnStorage(const ColumnStorage&) = delete;
  ColumnStorage& operator=(const ColumnStorage&) = delete;

  void* bytes() const { return bytes_; }
  std::size_t capacity_bytes() const { return capacity_bytes_; }
  bool on_disk() const { return file_ >= 0; }
  void grow(std::size_t at_least_bytes);
  void release();
  const SpillHandle& spill() const { return spill_; }

 private:
  void swap(ColumnStorage& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(capacity_bytes_, other.capacity_bytes_);
    std::swap(file_, other.file_);
    std::swap(mapped_, other.mapped_);
    std::swap(spill_, other.spill_);
  }
  void* bytes_ = nullptr;
  std::size_t capacity_bytes_ = 0;
  int file_ = -1;
  bool mapped_ = false;
  SpillHandle spill_;
};

template <typename T>
class Column {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Column() = default;
  explicit Column(SpillHandle spill) : storage_(std::move(spill)) {}
  Column(Column&& other) noexcept
      : storage_(std::move(other.storage_)), size_(std::exchange(other.size_, 0)) {}
  Column& operator=(Column&& other) noexcept {
    storage_ = std::move(other.storage_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* data() const { return static_cast<const T*>(storage_.bytes()); }
  T* data() { return static_cast<T*>(storage_.bytes()); }
  const T& operator[](std::size_t index) const { return data()[index]; }
  T& operator[](std::size_t index) { return data()[index]; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::span<const T> span() const { return {data(), size_}; }
  bool on_disk() const { return storage_.on_disk(); }

  void push_back(T value) {
    if ((size_ + 1) * sizeof(T) > storage_.capacity_bytes()) storage_.grow((size_ + 1) * sizeof(T));
    data()[size_++] = value;
  }
  void resize(std::size_t size, T value = {}) {
    if (size * sizeof(T) > storage_.capacity_bytes()) storage_.grow(size * sizeof(T));
    for (std::size_t i = size_; i < size; ++i) data()[i] = value;
    size_ = size;
  }
  // The new values are not initialised.
  void resize_uninitialized(std::size_t size) {
    if (size * sizeof(T) > storage_.capacity_bytes()) storage_.grow(size * sizeof(T));
    size_ = size;
  }
  // Empties it and releases its memory.
  void clear() {
    storage_.release();
    size_ = 0;
  }
  // An empty column with the same budget.
  Column sibling() const { return Column(storage_.spill()); }
  template <typename Other>
  Column<Other> sibling_of() const {
    return Column<Other>(storage_.spill());
  }

 private:
  ColumnStorage storage_;
  std::size_t size_ = 0;
};

}  // namespace mfu
