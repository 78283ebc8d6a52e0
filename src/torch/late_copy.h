// Numbers in a device's memory, read without waiting: a copy to the host is queued behind the work
// that is queued already, with an event behind it. Who wants them asks later, on the same thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace mfu::observer {

class LateCopy {
 public:
  // Null: they cannot be had without waiting (a graph is captured, the device has no events).
  // Nothing of it is seen by autograd or counted.
  static std::shared_ptr<LateCopy> begin(const at::Tensor& tensor) noexcept;

  // Asked on the thread that began it. False while a graph is captured: then nothing is asked.
  bool arrived() noexcept;
  const at::Tensor& host() const { return host_; }  // contiguous; of use once it has arrived

 private:
  LateCopy(at::Tensor host, c10::Event event) : host_(std::move(host)), event_(std::move(event)) {}

  at::Tensor host_;
  c10::Event event_;
  bool arrived_ = false;
};

// Whether a copy may begin and be asked for now. The device is as count.h takes it.
bool may_ask(std::int16_t device) noexcept;

// Integers of a list on the host.
std::vector<std::int64_t> integers_of(const at::Tensor& list);

}  // namespace mfu::observer
