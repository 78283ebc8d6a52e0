// One profiler file, linked from device event to launch to host operator: what mfu/trace.h hands to
// the stages behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/trace.h"
#include "trace/events.h"

namespace mfu {

class Texts;  // interned names

class Trace {
 public:
  Trace();
  ~Trace();
  Trace(Trace&&) noexcept;
  Trace& operator=(Trace&&) noexcept;

  TraceInfo info;
  DeviceEvents device;
  Launches launches;
  HostEvents host;
  std::vector<Lane> lanes;
  std::vector<Thread> threads;
  std::vector<ProfilerStep> steps;
  std::vector<Collective> collectives;
  Column<Clip> clips;  // by event
  TraceCoverage coverage;

  // The interned text; empty for kNone. Equal ids are equal texts. Always valid UTF-8.
  std::string_view text(std::uint32_t id) const;
  std::uint32_t text_count() const;
  // duration_ns, cut at the start of the next event on its stream.
  std::int64_t clipped_duration_ns(std::size_t device_event) const;
  // The outermost operator (not annotation, not Python) around a host event, itself included.
  std::uint32_t outermost_operator(std::uint32_t host_event) const;
  // The innermost event of that kind around a host event, itself included; kNone: none.
  std::uint32_t enclosing(std::uint32_t host_event, HostKind kind) const;

  std::unique_ptr<Texts> texts;
};

// One argument of an operator, as recorded.
struct OperatorInput {
  std::string type;  // "float", "c10::BFloat16", "Scalar", "TensorList" …
  std::vector<std::vector<std::int64_t>> shapes;  // one of a tensor, several of a list, none else
  bool list = false;
  std::string concrete;  // "[1, 1]", "False", "-1"; empty where not recorded
};
// Parses what HostEvents::inputs holds. Empty where the text is none of ours.
std::vector<OperatorInput> parse_inputs(std::string_view text);

// Reads a file: JSON (array or object form), plain, gzip or zstd; "-" is standard input. A
// truncated or partly malformed file is read as far as it goes (coverage says so); a file that
// holds no event is an error, as is one that is no trace.
Result<Trace> read_trace(const std::string& path, const ReadOptions& options = {});
// The same from memory; `name` stands in messages.
Result<Trace> read_trace_bytes(std::string_view bytes, const std::string& name,
                               const ReadOptions& options = {});
// Several, as mfu::read_traces() reads them.
Result<std::vector<Trace>> read_trace_files(const std::vector<std::string>& paths,
                                            const ReadOptions& options = {});

}  // namespace mfu
