// The devices that operators ran on: their numbers in the region's table, and who asks Python for
// their names, once each.
#pragma once

#include <cstdint>

namespace mfu::observer {

// Called on the thread that ran an operator on a device for the first time, with "cuda:0".
using DeviceSeen = void (*)(const char* device);
void set_device_seen(DeviceSeen seen) noexcept;

// `device` as count.h has it: type << 8 | index. Below 0: the first one seen.
std::uint8_t device_number(std::int16_t device);
void tell_device(std::int16_t device) noexcept;

// That an operator ran on last; -1: none.
std::int16_t last_accelerator() noexcept;

// Of those that compute while the host goes on; a CPU, or nothing yet, is not one.
inline bool is_asynchronous(std::int16_t device) {
  return device >= 256;
}

}  // namespace mfu::observer
