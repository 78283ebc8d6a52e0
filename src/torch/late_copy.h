// Reads numbers from a device's memory without waiting. A copy to the host is queued behind the
// work that is already queued, with an event behind it. The same thread asks for the result later.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace mfu::observer {

class LateCopy {
 public:
  // Null if the numbers cannot be had without waiting: a graph is being captured, or the device has
  // no events. Autograd sees nothing of this, and nothing is counted.
  static std::shared_ptr<LateCopy> begin(const at::Tensor& tensor) noexcept;

  // Call it on the thread that began the copy. Always false while a graph is captured.
  bool arrived() noexcept;
  const at::Tensor& host() const { return host_; }  // contiguous; valid once the copy has arrived

 private:
  LateCopy(at::Tensor host, c10::Event event) : host_(std::move(host)), event_(std::move(event)) {}

  at::Tensor host_;
  c10::Event event_;
  bool arrived_ = false;
};

// Whether a copy may now begin and be asked for. `device` is as in count.h.
bool may_ask(std::int16_t device) noexcept;

// The integers of a list in host memory.
std::vector<std::int64_t> integers_of(const at::Tensor& list);

}  // namespace mfu::observer
