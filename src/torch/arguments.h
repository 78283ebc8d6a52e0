// Converts the arguments of a torch operator to what ops/ takes. Sizes are borrowed from the
// tensors. Lists that torch does not keep as plain integers are copied into this object, without
// the heap.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "mfu/ops.h"
#include "torch/thread.h"

namespace mfu::observer {

class Arguments {
 public:
  Arguments() = default;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  std::span<const Argument> view() const { return {items(), count_}; }
  // The size of the first tensor's first dimension; 0 if there is no tensor.
  std::int64_t leading() const { return leading_; }
  std::int16_t device() const { return device_; }  // as count.h takes it; -1 if there is none
  // The tensor at that place, valid during the call. Null if there is none.
  const at::Tensor* tensor(std::size_t place) const {
    return place < tensors_.size() ? tensors_[place] : nullptr;
  }

  // Some weights are opaque, and only the operator's first result tells their size.
  void set_result(const c10::IValue& value);
  const Argument& result() const { return result_; }

  void add(const at::Tensor& tensor);
  void add(const std::optional<at::Tensor>& tensor);
  void add(c10::IntArrayRef list);
  void add(c10::SymIntArrayRef list);
  void add(const at::OptionalSymIntArrayRef& list);
  void add(const c10::SymInt& value);
  void add(std::int64_t value);
  void add(bool value);
  void add(double value);
  void add(const std::optional<double>& value);
  template <std::size_t length>
  void add(const std::array<bool, length>& flags) {
    std::span<std::int64_t> room = take(length);
    for (std::size_t i = 0; i < room.size(); ++i) room[i] = flags[i];
    push({.kind = Argument::Kind::integers, .integers = room});
  }
  void add(const c10::IValue& value);

 private:
  void push(const Argument& argument);
  std::span<std::int64_t> take(std::size_t count);
  void add_content(const at::Tensor& tensor, Argument& argument);
  void add_list(const c10::IValue& value);

  static Argument tensor_argument(const at::Tensor& tensor);
  const Argument* items() const {
    return std::launder(reinterpret_cast<const Argument*>(room_for_items_));
  }

  // An item is constructed when it is added: constructing all of them for each call costs more than
  // reading the call.
  static constexpr std::size_t kItems = 32;
  static_assert(std::is_trivially_destructible_v<Argument>);
  alignas(Argument) std::byte room_for_items_[kItems * sizeof(Argument)];
  Argument result_;
  std::size_t count_ = 0;
  std::int64_t leading_ = 0;
  std::int16_t device_ = -1;
  std::array<const at::Tensor*, 16> tensors_{};
  std::array<std::int64_t, 192> room_;
  std::size_t used_ = 0;
};

// The number that the recorder gave a data type.
unsigned type_id_of(ElementType type) noexcept;

// One operator of the table that is watched. It gets its number at its first call, because a
// process uses few of the operators there are.
class Watched {
 public:
  explicit Watched(std::string_view name);

  // Call it after the operator. If its cost is not known, the call is listed as uncounted.
  void count(Thread& thread, const Arguments& arguments) noexcept;
  void count_unknown(Thread& thread, std::string_view reason) noexcept;
  // Lists one call as uncounted, with a reason of its own.
  void list(Thread& thread, std::string_view reason) noexcept;
  // Only valid if the operator is counted.
  const Operator& row() const noexcept { return *found(); }
  unsigned number() noexcept;  // the recorder's number
  // If the operator is not counted itself, the operators that it calls are.
  bool hides_inner() const noexcept { return reason(found()).empty(); }
  // Whether this is attention that can only be counted by the operators that it calls.
  bool wraps_attention() const noexcept {
    const Operator* row = found();
    return row != nullptr && row->kind == OperatorKind::attention && !reason(row).empty();
  }

 private:
  // Asked for at each use, because the user may give a formula at any time.
  const Operator* found() const noexcept {
    if (asked_.load(std::memory_order_relaxed) != formulas_added()) [[unlikely]]
      ask();
    return row_.load(std::memory_order_acquire);
  }
  void ask() const noexcept;
  // Why it is not counted; empty if it is.
  static std::string_view reason(const Operator* row) noexcept;

  mutable std::atomic<const Operator*> row_{nullptr};
  mutable std::atomic<std::uint64_t> asked_{0};
  std::string name_, full_;  // the name in the table, and the name as registered
  std::atomic<int> id_{-1};
  std::atomic<int> unknown_id_{-1};
};

}  // namespace mfu::observer
