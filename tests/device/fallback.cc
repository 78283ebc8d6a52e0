// Any operator on the test device. What it returns is known at once, from its meta kernel; its CPU
// kernel runs later, on the stream's thread. An operator whose result's size depends on data, or
// that has no meta kernel, waits for the stream and runs at once, as nonzero does on a GPU.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <unordered_map>

#include "backend.h"

namespace late {
namespace {

using torch::jit::Stack;

// The same arguments on another device. Tensors that share memory here share it there too.
template <class Change>
c10::IValue changed(const c10::IValue& value, c10::Device device, Change change) {
  if (value.isTensor()) return value.toTensor().defined() ? change(value.toTensor()) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector())
      list.push_back(each.defined() ? change(each) : each);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<c10::optional<at::Tensor>> list;
    for (const auto& each : value.toOptionalTensorVector()) {
      bool there = each.has_value() && each->defined();
      list.push_back(there ? c10::optional<at::Tensor>(change(*each)) : c10::nullopt);
    }
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == c10::DeviceType::PrivateUse1) return device;
  return value;
}

struct Call {
  const c10::OperatorHandle& op;
  Stack arguments;
  int device = 0;
  std::vector<c10::Storage> kept;  // what a view of the host does not own
};

Call call_of(const c10::OperatorHandle& op, Stack* stack) {
  std::size_t count = op.schema().arguments().size();
  Call call{op, torch::jit::pop(*stack, count)};
  bool found = false;
  auto look = [&](const at::Tensor& tensor) {
    if (is_late(tensor)) call.kept.push_back(tensor.storage());
    if (is_late(tensor) && !found) call.device = tensor.device().index();
    found = found || is_late(tensor);
    return tensor;
  };
  for (const c10::IValue& each : call.arguments) {
    changed(each, c10::Device("cpu"), look);
    if (each.isDevice() && !found && each.toDevice().has_index())
      call.device = each.toDevice().index();
  }
  return call;
}

// Every tensor of a call as a meta tensor without data, and which meta tensor stands for which.
class Shapes {
 public:
  at::Tensor of(const at::Tensor& tensor) {
    if (!is_late(tensor) && tensor.dim() == 0) return tensor;  // a number of the host
    auto known = tensors_.find(tensor.unsafeGetTensorImpl());
    if (known != tensors_.end()) return known->second;
    const void* storage = tensor.storage().unsafeGetStorageImpl();
    at::Tensor& base = bases_[storage];
    auto elements = static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.itemsize());
    if (!base.defined())
      base = at::empty({elements}, at::TensorOptions().dtype(tensor.scalar_type()).device("meta"));
    at::Tensor made =
        base.scalar_type() == tensor.scalar_type()
            ? base.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset())
            : at::empty_strided(tensor.sizes(), tensor.strides(),
                                at::TensorOptions().dtype(tensor.scalar_type()).device("meta"));
    tensors_.emplace(tensor.unsafeGetTensorImpl(), made);
    originals_.emplace(made.unsafeGetTensorImpl(), tensor);
    owners_.emplace(made.storage().unsafeGetStorageImpl(), tensor);
    return made;
  }
  // The call's own tensor that this meta tensor stands for; null if there is none.
  const at::Tensor* original(const at::Tensor& shape) const {
    auto found = originals_.find(shape.unsafeGetTensorImpl());
    return found != originals_.end() ? &found->second : nullptr;
  }
  // The call's tensor whose memory this is a view of; null if there is none.
  const at::Tensor* owner(const at::Tensor& shape) const {
    auto found = owners_.find(shape.storage().unsafeGetStorageImpl());
    return found != owners_.end() ? &found->second : nullptr;
  }
  // Resizes the call's tensors that the operator gave another size.
  void resize_originals() const {
    for (const auto& [shape, tensor] : originals_) {
      if (is_late(tensor) && shape->sizes() != tensor.sizes())
        resize_on(tensor, shape->sizes(), shape->strides());
    }
  }

 private:
  std::unordered_map<const void*, at::Tensor> tensors_, bases_, owners_;
  std::unordered_map<c10::TensorImpl*, at::Tensor> originals_;
};

// Results on the device, and which of them receive a copy of the CPU kernel's results.
struct Results {
  Stack values;
  std::vector<at::Tensor> fresh;  // in order; undefined: nothing to copy
};

c10::IValue result_of(const c10::IValue& shape, const Shapes& shapes, int device,
                      std::vector<at::Tensor>& fresh) {
  auto place = [&](const at::Tensor& each) -> at::Tensor {
    if (const at::Tensor* same = shapes.original(each)) {
      fresh.emplace_back();
      return *same;
    }
    const at::Tensor* owner = shapes.owner(each);
    if (owner != nullptr && is_late(*owner)) {
      fresh.emplace_back();
      return owner->as_strided(each.sizes(), each.strides(), each.storage_offset());
    }
    fresh.push_back(empty_on(device, each.sizes(), each.strides(), each.scalar_type()));
    return fresh.back();
  };
  if (shape.isTensor() && !shape.toTensor().defined()) fresh.emplace_back();
  return changed(shape, c10::Device("cpu"), place);
}

// No value: the result cannot be known before the operator runs.
c10::optional<Results> results_before(const Call& call) {
  if (call.op.hasTag(at::Tag::data_dependent_output) ||
      call.op.hasTag(at::Tag::dynamic_output_shape))
    return c10::nullopt;
  Shapes shapes;
  Stack stack;
  for (const c10::IValue& each : call.arguments)
    stack.push_back(changed(each, c10::Device("meta"),
                            [&](const at::Tensor& tensor) { return shapes.of(tensor); }));
  try {
    call.op.callBoxed(stack);
    // there is no meta kernel, or the CPU kernel gives the better message
  } catch (const std::exception&) {
    return c10::nullopt;
  }
  shapes.resize_originals();
  Results results;
  for (const c10::IValue& each : stack) {
    if (!each.isTensor() && !each.isTensorList() && !each.isNone()) return c10::nullopt;
    results.values.push_back(result_of(each, shapes, call.device, results.fresh));
  }
  return results;
}

Stack on_host(const Call& call) {
  Stack stack;
  // A number on the host is read now, because the caller may change it afterwards.
  auto view = [](const at::Tensor& tensor) {
    if (is_late(tensor)) return host_view(tensor);
    at::Tensor copy = tensor.clone();
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
      copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    return copy;
  };
  for (const c10::IValue& each : call.arguments)
    stack.push_back(changed(each, c10::Device("cpu"), view));
  return stack;
}

void copy_results(const Stack& stack, const std::vector<at::Tensor>& targets) {
  std::size_t next = 0;
  auto copy = [&](const at::Tensor& result) {
    if (next < targets.size() && targets[next].defined()) targets[next].copy_(result);
    ++next;
    return result;
  };
  for (const c10::IValue& each : stack) {
    if (each.isTensor() && !each.toTensor().defined()) ++next;
    changed(each, c10::Device("cpu"), copy);
  }
}

void run_now(const Call& call, Stack* stack) {
  synchronize_device(call.device);
  Stack host = on_host(call);
  on_device([&] { call.op.callBoxed(host); });
  Shapes none;
  for (const c10::IValue& each : host) {
    std::vector<at::Tensor> fresh;
    c10::IValue result = result_of(each, none, call.device, fresh);
    Stack one{each};
    for (at::Tensor& target : fresh)
      if (target.defined()) target = host_view(target);
    on_device([&] { copy_results(one, fresh); });
    stack->push_back(std::move(result));
  }
}

}  // namespace

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  Call call = call_of(op, stack);
  c10::optional<Results> results = results_before(call);
  if (!results) return run_now(call, stack);
  std::vector<at::Tensor> targets;
  for (const at::Tensor& each : results->fresh) {
    if (each.defined()) call.kept.push_back(each.storage());
    targets.push_back(each.defined() ? host_view(each) : at::Tensor());
  }
  Stack host = on_host(call);
  launch_kernel(current_stream(call.device),
                [op, host = std::move(host), targets = std::move(targets),
                 kept = std::move(call.kept)]() mutable {
                  on_device([&] {
                    op.callBoxed(host);
                    copy_results(host, targets);
                  });
                  host.clear();
                });
  for (c10::IValue& each : results->values) stack->push_back(std::move(each));
}

}  // namespace late
