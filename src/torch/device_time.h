// Time as a device sees it. An asynchronous device runs behind the host, so the host's clock only
// measures how long the launches took. Therefore an event is recorded in the device's stream where
// a step ends, and where a part of one begins and ends. The same thread later asks whether the
// event was reached. Nothing here waits, and nothing is asked while a graph is captured.
#pragma once

#include <c10/core/Stream.h>

#include <optional>

#include "record/region.h"

namespace mfu::observer {

// The stream in which events of the device may now be recorded and asked for. Empty while a graph
// is captured, and for a CPU.
std::optional<c10::Stream> open_stream(c10::Device device);

// The stream in which this thread computes on a device (type << 8 | index), and whether the device
// has finished the work in it. While a graph is captured this is unknown, and taken to be false.
std::int64_t stream_of(std::int16_t device) noexcept;
bool is_done(std::int16_t device, std::int64_t stream) noexcept;

// True if the device measures this part. Then the caller must not use its own clock.
bool begin_device_part(RegionPhase part) noexcept;
bool end_device_part(RegionPhase part) noexcept;

// A step ends here. Times of earlier steps that became known go to the recorder.
void end_device_step() noexcept;

// The program's own code is over. Times that are known now become facts. Waits for at most a
// second.
void finish_device_steps() noexcept;
void forget_device_time() noexcept;

}  // namespace mfu::observer
