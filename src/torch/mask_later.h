// Attention masks on a device. Their area is summed there, behind the program's own work, and read
// once it has arrived. Nobody waits for it. Until then the FLOPs that depend on it are set aside.
// Once the area is known, they are added to the phase that their pass turned out to be.
//
// Each content of a mask (storage and version) is read once. Reading costs a few launches, so it
// takes at most a hundredth of the time. A mask in between is assumed to be like the last one of
// its size, and a note says so.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "record/region.h"

namespace mfu::observer {

struct Thread;

// An attention whose mask is on a device.
struct Masked {
  unsigned operator_id = 0, type_id = 0;
  std::uint64_t flop = 0;  // for the full rectangle
  std::int16_t device = -1;
};

// True if the mask is known or will be: then this counts the FLOPs and not the caller. Call it
// after the call itself was counted with none of its model FLOPs.
bool count_later(Thread& thread, const at::Tensor& mask, const Masked& call) noexcept;
// Whether such a mask can be read at all.
bool can_read_later(const at::Tensor& mask) noexcept;

// A pass is booked, so what was set aside for it belongs to that phase. The lock of the passes is
// held.
void place_masked(std::uint64_t pass, PassPhase phase, std::uint32_t model) noexcept;

// Adds what has arrived since. Never waits.
void settle_masks() noexcept;
// The process ends. Waits, but not for long.
void finish_masks() noexcept;
void forget_masks() noexcept;  // in a forked child

}  // namespace mfu::observer
