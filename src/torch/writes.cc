#include "torch/writes.h"

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mfu::observer {
namespace {

// Limits the memory and the time of a watch that was never ended.
constexpr std::size_t kMostWriters = 1 << 16;
constexpr std::size_t kMostWatched = 1 << 18;

struct WatchedWrites {
  at::CallbackHandle handle = 0;
  std::unordered_map<std::uint64_t, Writer> writers;
  std::vector<bool> read_unwritten;  // of each watch that runs, the outermost first
  std::size_t calls = 0;

  bool is_over() const { return writers.size() > kMostWriters || calls > kMostWatched; }
};

// What operator_ends() has to know of the call.
struct Moved : at::ObserverContext {};

thread_local constinit WatchedWrites* watched_writes = nullptr;

// Whether the operator allocates memory and writes at most a constant. For a filling operator, this
// is about its argument.
std::optional<Writer> allocates(std::string_view name) {
  constexpr std::string_view kEmpty[] = {"aten::empty", "aten::new_empty", "aten::resize_"};
  constexpr std::string_view kConstant[] = {
      "aten::zeros",    "aten::new_zeros", "aten::ones",  "aten::new_ones",      "aten::full",
      "aten::new_full", "aten::zero_",     "aten::fill_", "aten::_foreach_zero_"};
  for (std::string_view each : kEmpty) {
    if (name.starts_with(each)) return Writer::nobody;
  }
  for (std::string_view each : kConstant) {
    if (name.starts_with(each)) return Writer::only_constant;
  }
  return std::nullopt;
}

// Whether the operator's result is made of the same numbers as its arguments, without a product.
bool moves(std::string_view name) {
  constexpr std::array<std::string_view, 17> kMoves = {
      "aten::copy_", "aten::to",  "aten::_to_copy", "aten::clone", "aten::contiguous", "aten::add",
      "aten::add_",  "aten::sub", "aten::sub_",     "aten::mul",   "aten::mul_",       "aten::div",
      "aten::div_",  "aten::neg", "aten::cat",      "aten::stack", "aten::sum"};
  return std::find(kMoves.begin(), kMoves.end(), name) != kMoves.end();
}

// Whether the operator changes only what is known about a tensor, although its schema says that it
// writes to it.
bool keeps_numbers(std::string_view name) {
  constexpr std::string_view kKeep[] = {
      "aten::detach_",     "aten::requires_grad_", "aten::t_",
      "aten::transpose_",  "aten::squeeze_",       "aten::unsqueeze_",
      "aten::as_strided_", "aten::set_",           "aten::rename_"};
  return std::find(std::begin(kKeep), std::end(kKeep), name) != std::end(kKeep);
}

// Whether its numbers may be the result of a product.
bool is_large(const c10::IValue& value) {
  if (!value.isTensor()) return false;
  const at::Tensor& tensor = value.toTensor();
  return tensor.defined() && tensor.dim() >= 2 && at::isFloatingType(tensor.scalar_type());
}

std::uint64_t storage_of(const c10::IValue& value) {
  if (!value.isTensor()) return 0;
  const at::Tensor& tensor = value.toTensor();
  if (!tensor.defined() || !tensor.has_storage()) return 0;
  return reinterpret_cast<std::uint64_t>(tensor.storage().unsafeGetStorageImpl());
}

template <class Visit>
void each_storage(const c10::IValue& value, const Visit& visit) {
  if (std::uint64_t storage = storage_of(value)) visit(storage);
  if (!value.isList()) return;  // lists of lists too: what collectives receive
  for (const c10::IValue& each : value.toListRef()) each_storage(each, visit);
}

bool makes_views(const c10::FunctionSchema& schema) {
  for (const c10::Argument& each : schema.returns()) {
    if (each.alias_info() != nullptr && !each.alias_info()->isWrite()) return true;
  }
  return false;
}

// Whether the call only moves numbers that came from Python.
bool moves_foreign(const WatchedWrites& watched, const at::RecordFunction& function,
                   std::string_view name) {
  if (!moves(name)) return false;
  bool foreign = false, own = false, first = true;
  auto look = [&](const c10::IValue& value) {
    if (!is_large(value)) return;
    auto found = watched.writers.find(storage_of(value));
    Writer writer = found == watched.writers.end() ? Writer::not_seen : found->second;
    foreign |= writer == Writer::brought_in;
    own |= writer == Writer::not_seen || writer == Writer::an_operator;
  };
  for (const c10::IValue& value : function.inputs()) {
    if (!(std::exchange(first, false) && name == "aten::copy_")) {
      if (value.isTensorList()) {
        for (const c10::IValue& each : value.toListRef()) look(each);
      }
      look(value);
    }
  }
  return foreign && !own;
}

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function) {
  WatchedWrites* watched = watched_writes;
  if (watched == nullptr) return {};
  if (watched->is_over()) {
    at::disableCallback(watched->handle);
    return {};
  }
  ++watched->calls;
  std::optional<c10::FunctionSchema> schema = function.operator_schema();
  if (!schema) return {};
  std::optional<Writer> allocated = allocates(schema->name());
  // Operators outside of aten may write to arguments without saying so in their schema.
  bool foreign = !schema->name().starts_with("aten::");
  bool reads =
      !allocated && !foreign && !schema->name().ends_with("_like") && !makes_views(*schema);
  bool moved = moves_foreign(*watched, function, schema->name());
  bool keeps = keeps_numbers(schema->name());
  bool brings = schema->name() == "aten::lift_fresh";  // torch.tensor(), torch.from_numpy()
  std::size_t place = 0;
  for (const c10::IValue& value : function.inputs()) {
    if (place >= schema->arguments().size()) break;
    const c10::Argument& argument = schema->arguments()[place++];
    bool writes =
        foreign || (argument.alias_info() != nullptr && argument.alias_info()->isWrite() && !keeps);
    each_storage(value, [&](std::uint64_t storage) {
      auto found = watched->writers.find(storage);
      bool written = found != watched->writers.end() && found->second == Writer::an_operator;
      bool from_outside = brings && is_large(value) && (!written || is_outside(storage));
      if ((moved && writes) || from_outside) {
        watched->writers[storage] = Writer::brought_in;
      } else if (writes && !written) {
        watched->writers[storage] = allocated.value_or(Writer::an_operator);
      } else if (reads && found != watched->writers.end() && found->second == Writer::nobody) {
        watched->read_unwritten.back() = true;
      }
    });
  }
  if (!moved) return {};
  return std::make_unique<Moved>();
}

void operator_ends(const at::RecordFunction& function, at::ObserverContext* context) {
  WatchedWrites* watched = watched_writes;
  if (watched == nullptr || watched->is_over()) return;
  std::optional<c10::FunctionSchema> schema = function.operator_schema();
  if (!schema) return;
  Writer writer = context != nullptr ? Writer::brought_in
                                     : allocates(schema->name()).value_or(Writer::an_operator);
  std::size_t place = 0;
  for (const c10::IValue& value : function.outputs()) {
    if (place >= schema->returns().size()) break;
    if (schema->returns()[place++].alias_info() != nullptr) continue;  // it is an argument
    each_storage(value, [&](std::uint64_t storage) { watched->writers[storage] = writer; });
  }
}

}  // namespace

void watch_writes(int change) noexcept {
  try {
    if (watched_writes == nullptr) watched_writes = new WatchedWrites;
    WatchedWrites& watched = *watched_writes;
    if (change < 0) {
      if (watched.read_unwritten.empty()) return;
      bool inside = watched.read_unwritten.back();
      watched.read_unwritten.pop_back();
      if (watched.read_unwritten.empty()) {
        at::removeCallback(watched.handle);
      } else if (inside) {
        watched.read_unwritten.back() = true;
      }
      return;
    }
    watched.read_unwritten.push_back(false);
    if (watched.read_unwritten.size() == 1) {
      watched.writers.clear();
      watched.calls = 0;
      watched.handle =
          at::addThreadLocalCallback(at::RecordFunctionCallback(operator_begins, operator_ends)
                                         .needsInputs(true)
                                         .needsOutputs(true)
                                         .scopes({at::RecordScope::FUNCTION}));
    }
  } catch (...) {  // then nothing is known about the memory
  }
}

Writer writer_of(std::uint64_t storage) noexcept {
  if (watched_writes == nullptr) return Writer::not_seen;
  auto found = watched_writes->writers.find(storage);
  return found == watched_writes->writers.end() ? Writer::not_seen : found->second;
}

bool is_outside(std::uint64_t storage) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): Python holds the storage
  auto* found = reinterpret_cast<c10::StorageImpl*>(storage);
  return found != nullptr && found->allocator() == nullptr && !found->resizable() &&
         !found->received_cuda();
}

bool read_unwritten() noexcept {
  return watched_writes != nullptr && !watched_writes->read_unwritten.empty() &&
         watched_writes->read_unwritten.back();
}

}  // namespace mfu::observer
