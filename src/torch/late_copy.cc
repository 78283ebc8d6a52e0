#include "torch/late_copy.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "torch/device_time.h"
#include "torch/thread.h"

namespace mfu::observer {
namespace {

// If the device knows pinned memory, a copy to other memory would wait.
bool pins(c10::Device device) {
  return device.is_cuda() || device.is_xpu();
}

at::Tensor copied(const at::Tensor& tensor) {
  Quiet quiet(this_thread);
  c10::impl::ExcludeDispatchKeyGuard below(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView |
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  at::TensorOptions options = tensor.options().device(at::kCPU);
  if (pins(tensor.device())) options = options.pinned_memory(true);
  at::Tensor host = at::empty(tensor.sizes(), options);
  host.copy_(tensor, /*non_blocking=*/true);
  return host;
}

}  // namespace

std::shared_ptr<LateCopy> LateCopy::begin(const at::Tensor& tensor) noexcept {
  try {
    std::optional<c10::Stream> stream = open_stream(tensor.device());
    if (!stream) return nullptr;
    at::Tensor host = copied(tensor);
    c10::Event event(tensor.device().type(), c10::EventFlag::PYTORCH_DEFAULT);
    event.record(*stream);
    return std::shared_ptr<LateCopy>(new LateCopy(std::move(host), std::move(event)));
  } catch (...) {  // a device without such copies or events
    return nullptr;
  }
}

bool LateCopy::arrived() noexcept {
  if (arrived_) return true;
  try {
    if (!open_stream(event_.device())) return false;
    arrived_ = event_.query();
  } catch (...) {
  }
  return arrived_;
}

bool may_ask(std::int16_t device) noexcept {
  try {
    return device >= 0 &&
           open_stream({static_cast<c10::DeviceType>(device >> 8),
                        static_cast<c10::DeviceIndex>(static_cast<std::int8_t>(device & 0xFF))})
               .has_value();
  } catch (...) {
    return false;
  }
}

std::vector<std::int64_t> integers_of(const at::Tensor& list) {
  std::vector<std::int64_t> found(static_cast<std::size_t>(list.numel()));
  bool wide = list.scalar_type() == at::kLong;
  std::int64_t step = list.dim() == 1 ? list.stride(0) : 1;
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::int64_t place = static_cast<std::int64_t>(i) * step;
    found[i] =
        wide ? list.const_data_ptr<std::int64_t>()[place] : list.const_data_ptr<int>()[place];
  }
  return found;
}

}  // namespace mfu::observer
