// Packed attention whose lengths are not known when it is called, because they are in a device's
// memory (fine-tuning with flash-attn) or too many for the stack. It is counted once they have
// arrived (late_copy.h). Lengths that have not arrived when the program ends are listed as
// uncounted.
#pragma once

#include "torch/arguments.h"

namespace mfu::observer {

// True if the call is counted or will be. False if its lengths cannot be read.
bool count_packed(Thread& thread, Watched& op, const Arguments& arguments) noexcept;

// Counts what has arrived for this thread. Called at its next such call and at the end of a step.
void settle_lengths(Thread& thread) noexcept;

// The program's own code is over: does the same for all threads. Waits for at most a second.
void finish_lengths() noexcept;
void forget_lengths() noexcept;

}  // namespace mfu::observer
