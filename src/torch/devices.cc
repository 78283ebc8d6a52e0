#include "torch/devices.h"

#include <c10/core/Device.h>

#include <atomic>
#include <string>

#include "record/recorder.h"

namespace mfu::observer {
namespace {

constexpr std::size_t kDevices = 8192;  // type << 8 | index
constinit std::atomic<std::int16_t> accelerator{-1};
constinit std::atomic<DeviceSeen> device_seen{nullptr};

std::size_t slot_of(std::int16_t device) {
  return static_cast<std::size_t>(device) % kDevices;
}

// A tensor's device always has an index. The CPU's is none or 0, and both are the same device.
std::string name_of(std::int16_t device) {
  auto type = static_cast<c10::DeviceType>(device >> 8);
  if (type == c10::DeviceType::CPU) return "cpu";
  return c10::Device(type, static_cast<c10::DeviceIndex>(device & 0xFF)).str();
}

}  // namespace

std::int16_t last_accelerator() noexcept {
  return accelerator.load(std::memory_order_relaxed);
}

void set_device_seen(DeviceSeen seen) noexcept {
  device_seen.store(seen);
}

std::uint8_t device_number(std::int16_t device) {
  if (device < 0) return 0;
  static constinit std::atomic<std::uint16_t> known[kDevices] = {};  // number + 1
  std::atomic<std::uint16_t>& slot = known[slot_of(device)];
  std::uint16_t number = slot.load(std::memory_order_relaxed);
  if (number == 0) {
    number = static_cast<std::uint16_t>(Recorder::process().device_id(name_of(device)) + 1);
    slot.store(number, std::memory_order_relaxed);
  }
  return static_cast<std::uint8_t>(number - 1);
}

void tell_device(std::int16_t device) noexcept {
  if (!is_asynchronous(device)) return;
  accelerator.store(device, std::memory_order_relaxed);
  static constinit std::atomic<bool> told[kDevices] = {};
  DeviceSeen seen = device_seen.load(std::memory_order_acquire);
  if (seen == nullptr || told[slot_of(device)].exchange(true, std::memory_order_relaxed)) return;
  seen(name_of(device).c_str());
}

}  // namespace mfu::observer
