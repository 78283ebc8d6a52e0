// One template for every counted operator that has its own kernel. It calls what comes next in the
// dispatcher, then counts. It is registered on the key BackendSelect: every call passes it, below
// autograd and above the backends, and these operators have nothing else there.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <torch/library.h>

#include <string>

#include "torch/count.h"
#include "torch/register.h"

namespace mfu::observer {

inline bool is_meta(c10::DispatchKeySet keys) {
  return keys.has_backend(c10::BackendComponent::MetaBit);
}

// Tensors without plain sizes.
inline constexpr c10::DispatchKeySet kOddKeys = c10::DispatchKeySet(c10::DispatchKey::Sparse) |
                                                c10::DispatchKeySet(c10::DispatchKey::SparseCsr) |
                                                c10::DispatchKeySet(c10::DispatchKey::NestedTensor);
inline bool is_odd(c10::DispatchKeySet keys) {
  return !(keys & kOddKeys).empty();
}

[[gnu::always_inline]] inline c10::DispatchKeySet below(c10::DispatchKeySet keys) {
  return keys &
         c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect);
}

// False if the call must not be counted: meta tensors belong to a tracer, and what a counted
// operator calls is already counted.
[[gnu::always_inline]] inline bool counts(const Thread& thread, c10::DispatchKeySet keys) {
  if (thread.quiet == 0 && mode.load(std::memory_order_relaxed) == kCounting && !is_meta(keys))
      [[likely]] {
    return true;
  }
  return thread.quiet == 0 && !is_meta(keys) && refresh_mode();
}

// `Rule::count(thread, arguments…)` counts after the call. `Rule::odd_id()` names the operator if
// the tensors have no plain sizes.
template <class Op, class Rule, class Schema = typename Op::schema>
struct Kernel;

template <class Op, class Rule, class Result, class... Arguments>
struct Kernel<Op, Rule, Result(Arguments...)> {
  // The signatures are those of the dispatcher.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  static Result call(c10::DispatchKeySet keys, Arguments... arguments) {
    Thread& thread = found_thread();
    if (!counts(thread, keys)) [[unlikely]] {
      return Op::redispatch(below(keys), arguments...);
    }
    Result result = redispatch(thread, keys, arguments...);
    count(thread, keys, arguments...);
    return result;
  }

 private:
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  static Result redispatch(Thread& thread, c10::DispatchKeySet keys, Arguments... arguments) {
    Quiet quiet(thread);
    // NOLINTNEXTLINE(performance-unnecessary-value-param)
    return Op::redispatch(below(keys), arguments...);
  }
  static void count(Thread& thread, c10::DispatchKeySet keys, const Arguments&... arguments) {
    try {
      if (is_odd(keys)) [[unlikely]] {
        count_unknown(thread, Rule::odd_id());
      } else {
        Rule::count(thread, arguments...);
      }
    } catch (...) {  // a tensor that has no sizes; the operator itself has run
    }
  }
};

template <class Op, class Rule>
void watch(torch::Library& aten, Taken& taken) {
  std::string name = Op::name;
  name = name.substr(name.find("::") + 2);
  if (*Op::overload_name != 0) name.append(".").append(Op::overload_name);
  aten.impl(name.c_str(), TORCH_FN((Kernel<Op, Rule>::call)));
  taken.push_back("aten::" + name);
}

// A device as count.h takes it.
inline std::int16_t number_of(c10::Device device) {
  return static_cast<std::int16_t>(static_cast<int>(device.type()) << 8 |
                                   (static_cast<int>(device.index()) & 0xFF));
}

// The recorder's numbers of torch's data types. Each is assigned at its first use; 0 means not yet.
inline constexpr std::size_t kScalarTypes = 64;
extern std::atomic<std::uint32_t> type_ids[kScalarTypes];  // number + 1
std::uint32_t type_id_slowly(at::ScalarType type) noexcept;
inline std::uint32_t type_id_of(at::ScalarType type) {
  auto index = static_cast<std::size_t>(type);
  std::uint32_t id = index < kScalarTypes ? type_ids[index].load(std::memory_order_relaxed) : 0;
  return id != 0 ? id - 1 : type_id_slowly(type);
}

}  // namespace mfu::observer
