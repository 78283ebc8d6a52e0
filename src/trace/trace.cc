#include "trace/trace.h"

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

Traces::Traces(std::vector<Trace> traces)
    : traces_(std::make_unique<std::vector<Trace>>(std::move(traces))) {}
Traces::~Traces() = default;
Traces::Traces(Traces&&) noexcept = default;
Traces& Traces::operator=(Traces&&) noexcept = default;

std::size_t Traces::size() const {
  return traces_->size();
}

const TraceInfo& Traces::info(std::size_t index) const {
  return (*traces_)[index].info;
}

const TraceCoverage& Traces::coverage(std::size_t index) const {
  return (*traces_)[index].coverage;
}

std::span<const Trace> Traces::all() const {
  return *traces_;
}

Result<Traces> read_traces(const std::vector<std::string>& paths, const ReadOptions& options) {
  return Traces(MFU_TRY(read_trace_files(paths, options)));
}

}  // namespace mfu
