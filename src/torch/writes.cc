#include "torch/writes.h"

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace mfu::observer {
namespace {

// Limits the memory of a watch that was never ended.
constexpr std::size_t kMostWriters = 1 << 16;

struct WatchedWrites {
  int depth = 0;
  at::CallbackHandle handle = 0;
  std::unordered_map<std::uint64_t, Writer> writers;
  bool read_unwritten = false;
};
thread_local constinit WatchedWrites* watched_writes = nullptr;

// Whether the operator allocates memory and writes at most a constant. For a filling operator, this
// is about its argument.
std::optional<Writer> allocates(std::string_view name) {
  constexpr std::string_view kEmpty[] = {"aten::empty", "aten::new_empty", "aten::resize_"};
  constexpr std::string_view kConstant[] = {"aten::zeros",    "aten::new_zeros", "aten::ones",
                                            "aten::new_ones", "aten::full",      "aten::new_full",
                                            "aten::zero_",    "aten::fill_"};
  for (std::string_view each : kEmpty) {
    if (name.starts_with(each)) return Writer::nobody;
  }
  for (std::string_view each : kConstant) {
    if (name.starts_with(each)) return Writer::only_constant;
  }
  return std::nullopt;
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
  if (!value.isTensorList()) return;
  for (const at::Tensor& each : value.toTensorVector()) {
    if (std::uint64_t storage = storage_of(c10::IValue(each))) visit(storage);
  }
}

bool makes_views(const c10::FunctionSchema& schema) {
  for (const c10::Argument& each : schema.returns()) {
    if (each.alias_info() != nullptr && !each.alias_info()->isWrite()) return true;
  }
  return false;
}

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function) {
  WatchedWrites* watched = watched_writes;
  if (watched == nullptr || watched->writers.size() > kMostWriters) return {};
  std::optional<c10::FunctionSchema> schema = function.operator_schema();
  if (!schema) return {};
  std::optional<Writer> allocated = allocates(schema->name());
  // Operators outside of aten may write to arguments without saying so in their schema.
  bool foreign = !schema->name().starts_with("aten::");
  bool reads =
      !allocated && !foreign && !schema->name().ends_with("_like") && !makes_views(*schema);
  std::size_t place = 0;
  for (const c10::IValue& value : function.inputs()) {
    if (place >= schema->arguments().size()) break;
    const c10::Argument& argument = schema->arguments()[place++];
    bool writes = foreign || (argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    each_storage(value, [&](std::uint64_t storage) {
      auto found = watched->writers.find(storage);
      bool written = found != watched->writers.end() && found->second == Writer::an_operator;
      if (writes && !written) {
        watched->writers[storage] = allocated.value_or(Writer::an_operator);
      } else if (reads && found != watched->writers.end() && found->second == Writer::nobody) {
        watched->read_unwritten = true;
      }
    });
  }
  return {};
}

void operator_ends(const at::RecordFunction& function, at::ObserverContext*) {
  WatchedWrites* watched = watched_writes;
  if (watched == nullptr || watched->writers.size() > kMostWriters) return;
  std::optional<c10::FunctionSchema> schema = function.operator_schema();
  if (!schema) return;
  Writer writer = allocates(schema->name()).value_or(Writer::an_operator);
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
    watched.depth += change;
    if (change > 0 && watched.depth == 1) {
      watched.writers.clear();
      watched.read_unwritten = false;
      watched.handle =
          at::addThreadLocalCallback(at::RecordFunctionCallback(operator_begins, operator_ends)
                                         .needsInputs(true)
                                         .needsOutputs(true)
                                         .scopes({at::RecordScope::FUNCTION}));
    } else if (change < 0 && watched.depth == 0) {
      at::removeCallback(watched.handle);
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
  auto* found = reinterpret_cast<c10::StorageImpl*>(storage);
  return found != nullptr && found->allocator() == nullptr && !found->resizable() &&
         !found->received_cuda();
}

bool read_unwritten() noexcept {
  return watched_writes != nullptr && watched_writes->read_unwritten;
}

}  // namespace mfu::observer
