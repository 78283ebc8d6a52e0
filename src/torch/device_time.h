// Time as a device sees it. An asynchronous device runs behind the host: what a host's clock says
// of a range there is how long the launches took. So an event is recorded in the device's stream
// where a step ends and where a part of one begins and ends; whether it was reached is asked later,
// on the same thread. Nothing here waits, and nothing is asked while a graph is captured.
#pragma once

#include <c10/core/Stream.h>

#include <optional>

#include "record/region.h"

namespace mfu::observer {

// Where events of a device may be recorded and asked for now; none while a graph is captured, and
// on a CPU.
std::optional<c10::Stream> open_stream(c10::Device device);

// True: the part is timed on the device, and the caller's own clock is not to be used.
bool begin_device_part(RegionPhase part) noexcept;
bool end_device_part(RegionPhase part) noexcept;

// A step ends here. What became known since of earlier ones goes to the recorder.
void end_device_step() noexcept;

// The program's own code is over: what is known now becomes facts. Waits for up to a second.
void finish_device_steps() noexcept;
void forget_device_time() noexcept;

}  // namespace mfu::observer
