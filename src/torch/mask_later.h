// Attention masks that lie on a device. Their area is added up there, behind the program's own
// work, and read once it has come: nobody waits for it. Until then the FLOPs that depend on it are
// put aside; they are added when the area is known, to the phase that their pass turned out to be.
//
// A mask is read once for each content (storage and version). Reading costs a few launches, so it
// is done for at most a hundredth of the time: a mask in between is taken to be as the last one of
// its size, which is said.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "record/region.h"

namespace mfu::observer {

struct Thread;

// An attention whose mask is on a device.
struct Masked {
  unsigned operator_id = 0, type_id = 0;
  std::uint64_t flop = 0;  // of the full rectangle
  std::int16_t device = -1;
};

// Whether the mask is, or will be, known. True: FLOPs of the call are no more the caller's.
// Called after the call itself was counted, with none of its model's FLOPs.
bool count_later(Thread& thread, const at::Tensor& mask, const Masked& call) noexcept;
// Whether such a mask can be read at all.
bool can_read_later(const at::Tensor& mask) noexcept;

// A pass is booked: what was put aside for it belongs to that phase. Under the lock of the passes.
void place_masked(std::uint64_t pass, PassPhase phase, std::uint32_t model) noexcept;

// Adds what has come since. Never waits.
void settle_masks() noexcept;
// The process ends: waits, but not for long.
void finish_masks() noexcept;
void forget_masks() noexcept;  // in a forked child

}  // namespace mfu::observer
