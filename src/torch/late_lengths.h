// Packed attention whose lengths are not at hand when it is called: they lie in a device's memory,
// as in fine-tuning with flash-attn, or are too many for the stack. It counts once they have
// arrived (late_copy.h). What has not arrived when the program ends is listed as uncounted.
#pragma once

#include "torch/arguments.h"

namespace mfu::observer {

// True: it is counted, or will be. False: its lengths cannot be had.
bool count_packed(Thread& thread, Watched& op, const Arguments& arguments) noexcept;

// Counts what has arrived for this thread; asked at its next such call and where a step ends.
void settle_lengths(Thread& thread) noexcept;

// The program's own code is over: the same for all threads. Waits for up to a second.
void finish_lengths() noexcept;
void forget_lengths() noexcept;

}  // namespace mfu::observer
