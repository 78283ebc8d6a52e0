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

// A CPU tensor over the same bytes, since the device's memory is the host's. Only work in a stream
// may touch it. It does not own the bytes: the caller keeps `tensor`'s storage alive.
at::Tensor host_view(const at::Tensor& tensor);

// Runs on a stream's thread. It calls CPU kernels directly, past whatever watches the dispatcher,
// as a real device's kernels run.
void on_device(const Work& work);

at::Tensor empty_on(int device, at::IntArrayRef sizes, at::IntArrayRef strides,
                    at::ScalarType type);
void resize_on(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides);

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace late
