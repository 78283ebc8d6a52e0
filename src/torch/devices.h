// The devices that operators ran on, with their numbers in the region's table. Python is asked once
// for the name of each.
#pragma once

#include <cstdint>

namespace mfu::observer {

// Called on the thread that first ran an operator on a device, with a name such as "cuda:0".
using DeviceSeen = void (*)(const char* device);
void set_device_seen(DeviceSeen seen) noexcept;

// `device` is type << 8 | index, as in count.h. Below 0: the first device seen.
std::uint8_t device_number(std::int16_t device);
void tell_device(std::int16_t device) noexcept;

// The accelerator that an operator last ran on; -1 if there is none.
std::int16_t last_accelerator() noexcept;

// True for a device that computes while the host goes on. A CPU is not one.
inline bool is_asynchronous(std::int16_t device) {
  return device >= 256;
}

}  // namespace mfu::observer
