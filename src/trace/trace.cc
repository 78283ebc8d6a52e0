#include "mfu/trace.h"

#include <algorithm>

#include "trace/texts.h"

namespace mfu {

Trace::Trace() = default;
Trace::~Trace() = default;
Trace::Trace(Trace&&) noexcept = default;
Trace& Trace::operator=(Trace&&) noexcept = default;

std::string_view Trace::text(std::uint32_t id) const {
  return id == kNone || !texts || id >= texts->count() ? std::string_view() : texts->text(id);
}

std::uint32_t Trace::text_count() const {
  return texts ? texts->count() : 0;
}

std::int64_t Trace::clipped_duration_ns(std::size_t device_event) const {
  auto found =
      std::lower_bound(clips.begin(), clips.end(), device_event,
                       [](const Clip& clip, std::size_t event) { return clip.event < event; });
  bool clipped = found != clips.end() && found->event == device_event;
  return clipped ? found->duration_ns : device.duration_ns[device_event];
}

std::uint32_t Trace::outermost_operator(std::uint32_t host_event) const {
  std::uint32_t outermost = kNone;
  for (std::uint32_t at = host_event; at != kNone; at = host.parent[at]) {
    if (host.kind[at] == HostKind::op) outermost = at;
  }
  return outermost;
}

std::uint32_t Trace::enclosing(std::uint32_t host_event, HostKind kind) const {
  std::uint32_t at = host_event;
  while (at != kNone && host.kind[at] != kind) at = host.parent[at];
  return at;
}

}  // namespace mfu
