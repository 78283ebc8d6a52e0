// What backend.cc and fallback.cc share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include "runtime.h"

namespace late {

// The stream that this thread launches to.
StreamName current_stream(int device);

inline bool is_late(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}

// Memory of the device is the host's: the same bytes as a CPU tensor, which must not be touched but
// by work in a stream. It does not own them; whoever uses it keeps `tensor`'s storage.
at::Tensor host_view(const at::Tensor& tensor);

// Runs on a stream's thread: CPU kernels are called straight, past whatever watches the dispatcher,
// as a device's kernels are.
void on_device(const Work& work);

at::Tensor empty_on(int device, at::IntArrayRef sizes, at::IntArrayRef strides,
                    at::ScalarType type);
void resize_on(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides);

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace late
