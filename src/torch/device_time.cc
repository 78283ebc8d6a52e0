#include "torch/device_time.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "record/recorder.h"
#include "torch/devices.h"
#include "torch/thread.h"

namespace mfu::observer {
namespace {

constexpr std::size_t kMostWaiting = 256;  // of each kind; further ones are not recorded
constexpr std::size_t kEndsARecord = kRegionPhases;
constexpr std::size_t kEndsAtExit = 96;

using TimedEvent = std::shared_ptr<c10::Event>;

struct WaitingPart {
  RegionPhase part;
  TimedEvent begin, end;
};
struct WaitingStep {
  std::uint64_t number;
  TimedEvent end;
};

struct DeviceClock {
  pthread_t owner{};
  std::optional<c10::Device> device;
  std::vector<TimedEvent> free;
  TimedEvent open[kRegionPhases];  // where a part began
  std::deque<WaitingPart> parts;
  std::deque<WaitingStep> steps;
  TimedEvent last;  // the last step's end that was reached
  std::uint64_t last_number = 0, count = 0;
};

// Only the thread that ends steps uses this, so there is no lock. It is never destroyed: events
// must not be released while the process ends.
DeviceClock& device_clock() {
  static DeviceClock* instance = new DeviceClock;
  return *instance;
}
constinit std::atomic<bool> events_refused{false};  // a device without such events

bool is_capturing(const c10::impl::DeviceGuardImplInterface& guard, const c10::Stream& stream) {
  // An older torch cannot be asked. Then the Python glue tells it (kCapturing).
  auto ask = [&](const auto& any) {
    if constexpr (requires { any.isStreamCapturing(stream); }) return any.isStreamCapturing(stream);
    return false;
  };
  return ask(guard);
}

template <class Event>
double milliseconds_between(const Event& from, const Event& to) {
  if constexpr (requires { from.elapsedTime(to); }) return from.elapsedTime(to);
  throw std::exception();  // torch before 2.4
}

c10::Device device_of(std::int16_t number) {
  return {static_cast<c10::DeviceType>(number >> 8), static_cast<c10::DeviceIndex>(number & 0xFF)};
}

// The stream to record in. Empty if this thread does not end steps, if there is no such device, or
// if a graph is being captured.
std::optional<c10::Stream> stream_now() {
  std::int16_t number = last_accelerator();
  if (events_refused.load(std::memory_order_relaxed) || number < 0) return std::nullopt;
  DeviceClock& mine = device_clock();
  if (!mine.device) {
    mine.device = device_of(number);
    mine.owner = pthread_self();
  }
  if (pthread_equal(mine.owner, pthread_self()) == 0) return std::nullopt;
  return open_stream(*mine.device);
}

TimedEvent event_in(const c10::Stream& stream) {
  DeviceClock& mine = device_clock();
  TimedEvent event;
  if (!mine.free.empty()) {
    event = std::move(mine.free.back());
    mine.free.pop_back();
  } else {
    event = std::make_shared<c10::Event>(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);
  }
  event->record(stream);
  return event;
}

void give_event_back(TimedEvent event) {
  if (event && event.use_count() == 1) device_clock().free.push_back(std::move(event));
}

std::uint64_t ns_between(const TimedEvent& from, const TimedEvent& to) {
  double between = milliseconds_between(*from, *to) * 1e6;
  return between > 0 ? static_cast<std::uint64_t>(between) : 0;
}

// Streams keep their order: after an event that was not reached, none is.
void take_parts() {
  DeviceClock& mine = device_clock();
  while (!mine.parts.empty() && mine.parts.front().end->query()) {
    WaitingPart part = std::move(mine.parts.front());
    mine.parts.pop_front();
    Recorder::process().add_phase(part.part, ns_between(part.begin, part.end));
    give_event_back(std::move(part.begin));
    give_event_back(std::move(part.end));
  }
}

// For the next steps whose end was reached: nanoseconds since the step before, and the number of
// the last one.
struct KnownTimes {
  std::uint64_t last = 0;
  std::vector<std::uint64_t> durations_ns;
};
KnownTimes take_steps(std::size_t most) {
  DeviceClock& mine = device_clock();
  KnownTimes taken;
  while (!mine.steps.empty() && taken.durations_ns.size() < most) {
    WaitingStep& next = mine.steps.front();
    bool follows = mine.last && next.number == mine.last_number + 1;
    if ((!follows && !taken.durations_ns.empty()) || !next.end->query()) break;
    if (follows) taken.durations_ns.push_back(ns_between(mine.last, next.end));
    taken.last = next.number;
    give_event_back(std::exchange(mine.last, next.end));
    mine.last_number = next.number;
    mine.steps.pop_front();
  }
  return taken;
}

void refuse_events() noexcept {
  events_refused.store(true, std::memory_order_relaxed);
}

}  // namespace

std::optional<c10::Stream> open_stream(c10::Device device) {
  if (device.is_cpu() || (mode.load(std::memory_order_relaxed) & kCapturing) != 0) {
    return std::nullopt;
  }
  const auto* guard = c10::impl::getDeviceGuardImpl(device.type());
  c10::Stream stream = guard->getStream(device);
  if (is_capturing(*guard, stream)) return std::nullopt;
  return stream;
}

std::int64_t stream_of(std::int16_t device) noexcept {
  try {
    c10::Device place = device_of(device);
    return c10::impl::getDeviceGuardImpl(place.type())->getStream(place).id();
  } catch (...) {
    return 0;
  }
}

bool is_done(std::int16_t device, std::int64_t stream) noexcept {
  try {
    c10::Device place = device_of(device);
    const auto* guard = c10::impl::getDeviceGuardImpl(place.type());
    c10::Stream asked(c10::Stream::UNSAFE, place, stream);
    if ((mode.load(std::memory_order_relaxed) & kCapturing) != 0) return false;
    return !is_capturing(*guard, asked) && guard->queryStream(asked);
  } catch (...) {
    return false;
  }
}

bool begin_device_part(RegionPhase part) noexcept {
  try {
    std::optional<c10::Stream> stream = stream_now();
    if (!stream || device_clock().parts.size() >= kMostWaiting) return false;
    device_clock().open[static_cast<std::size_t>(part)] = event_in(*stream);
    return true;
  } catch (...) {
    refuse_events();
    return false;
  }
}

bool end_device_part(RegionPhase part) noexcept {
  try {
    std::optional<c10::Stream> stream = stream_now();
    TimedEvent begin = std::exchange(device_clock().open[static_cast<std::size_t>(part)], nullptr);
    if (!stream || !begin) return false;
    device_clock().parts.push_back({part, std::move(begin), event_in(*stream)});
    return true;
  } catch (...) {
    refuse_events();
    return false;
  }
}

void end_device_step() noexcept {
  try {
    std::optional<c10::Stream> stream = stream_now();
    DeviceClock& mine = device_clock();
    if (mine.device && pthread_equal(mine.owner, pthread_self()) == 0) return;
    std::uint64_t number = mine.count++;
    if (!stream) return;
    if (mine.steps.size() < kMostWaiting) mine.steps.push_back({number, event_in(*stream)});
    take_parts();
    KnownTimes taken = take_steps(kEndsARecord);
    if (taken.durations_ns.empty()) return;
    Recorder::process().add_device_times(number - taken.last, taken.durations_ns);
  } catch (...) {
    refuse_events();
  }
}

void finish_device_steps() noexcept {
  try {
    DeviceClock& mine = device_clock();
    if (mine.steps.empty() || !stream_now()) return;
    constexpr int kTurns = 200;
    for (int i = 0; i < kTurns && !mine.steps.back().end->query(); ++i) usleep(5000);
    take_parts();
    while (!mine.steps.empty()) {
      KnownTimes taken = take_steps(kEndsAtExit);
      if (taken.durations_ns.empty()) break;
      std::string text = std::to_string(mine.count - taken.last);
      for (std::uint64_t each : taken.durations_ns) text += " " + std::to_string(each);
      Recorder::process().fact("device_steps", text);
    }
  } catch (...) {
    refuse_events();
  }
}

void forget_device_time() noexcept {
  new (&device_clock()) DeviceClock;  // a forked child must not use its parent's events
}

}  // namespace mfu::observer
