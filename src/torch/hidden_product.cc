#include "torch/hidden_product.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "torch/writes.h"

namespace mfu::observer {
namespace {

// With fewer numbers in a row, sizes agree by chance.
constexpr std::int64_t kFewestInner = 4;

bool is_plain(const c10::IValue& value) {
  if (!value.isTensor()) return false;
  const at::Tensor& tensor = value.toTensor();
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.has_storage() &&
         tensor.dim() >= 2 && tensor.numel() > 0;
}

bool is_floating(const at::Tensor& tensor) {
  return at::isFloatingType(tensor.scalar_type());
}

std::uint64_t storage_of(const at::Tensor& tensor) {
  return reinterpret_cast<std::uint64_t>(tensor.storage().unsafeGetStorageImpl());
}

bool can_be_broadcast(const at::Tensor& tensor, const at::Tensor& out) {
  if (tensor.dim() > out.dim()) return false;
  for (std::int64_t i = 1; i <= tensor.dim(); ++i) {
    if (tensor.size(-i) != 1 && tensor.size(-i) != out.size(-i)) return false;
  }
  return true;
}

// Whether it can be a weight of [n, k]: as such, transposed, as a stack of experts, or packed.
bool is_weight(const at::Tensor& weight, std::int64_t n, std::int64_t k) {
  std::int64_t rows = weight.size(-2), columns = weight.size(-1);
  if (is_floating(weight)) return (rows == n && columns == k) || (rows == k && columns == n);
  if (weight.dim() != 2 || (rows != n && columns != n)) return false;
  for (std::int64_t in_one : {1, 2, 4, 8}) {
    if (weight.numel() * in_one == n * k) return true;
  }
  return false;
}

bool has_sizes_of_product(const at::Tensor& out, std::span<const c10::IValue> arguments) {
  std::int64_t n = out.size(-1), rows = out.numel() / n;
  for (const c10::IValue& x : arguments) {
    if (!is_plain(x) || !is_floating(x.toTensor())) continue;
    std::int64_t k = x.toTensor().size(-1);
    if (k < kFewestInner || n < 2 || x.toTensor().numel() / k != rows) continue;
    if (storage_of(x.toTensor()) == storage_of(out)) continue;
    for (const c10::IValue& weight : arguments) {
      if (&weight == &x || !is_plain(weight) || can_be_broadcast(weight.toTensor(), out)) continue;
      if (is_weight(weight.toTensor(), n, k)) return true;
    }
  }
  return false;
}

// A constant in a device's memory is not looked at, because that would wait for the device.
bool is_constant(const at::Tensor& tensor) {
  return !tensor.is_cpu() || tensor.eq(tensor.reshape(-1)[0]).all().item<bool>();
}

bool is_hidden(const at::Tensor& out, bool is_argument) {
  switch (writer_of(storage_of(out))) {
    case Writer::nobody:
    case Writer::brought_in:
      return true;
    case Writer::only_constant:
      return !is_constant(out);
    case Writer::not_seen:
      // A result that existed before is somebody's stored tensor.
      return is_argument || is_outside(storage_of(out));
    case Writer::an_operator:
      return false;
  }
  return false;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool is_tensor(const c10::Argument& argument) {
  return argument.type()->isSubtypeOf(*c10::TensorType::get());
}

}  // namespace

bool takes_factors(const c10::FunctionSchema& schema) {
  std::size_t read = 0, made = 0;
  for (const c10::Argument& each : schema.arguments()) {
    if (is_tensor(each)) ++(is_written(each) ? made : read);
  }
  for (const c10::Argument& each : schema.returns()) {
    if (is_tensor(each) && each.alias_info() == nullptr) ++made;
  }
  return read >= 2 && made >= 1;
}

bool hides_product(const c10::FunctionSchema& schema, std::span<const c10::IValue> arguments,
                   std::span<const c10::IValue> results) {
  for (std::size_t i = 0; i < results.size() && i < schema.returns().size(); ++i) {
    if (schema.returns()[i].alias_info() != nullptr || !is_plain(results[i])) continue;
    const at::Tensor& out = results[i].toTensor();
    if (is_floating(out) && has_sizes_of_product(out, arguments) && is_hidden(out, false)) {
      return true;
    }
  }
  for (std::size_t i = 0; i < arguments.size() && i < schema.arguments().size(); ++i) {
    if (!is_written(schema.arguments()[i]) || !is_plain(arguments[i])) continue;
    const at::Tensor& out = arguments[i].toTensor();
    if (is_floating(out) && has_sizes_of_product(out, arguments) && is_hidden(out, true)) {
      return true;
    }
  }
  return false;
}

}  // namespace mfu::observer
