// One profiler file in which device events are linked to launches and host operators. This is what
// mfu/trace.h gives to the later stages.
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
  Column<Clip> clips;  // sorted by event
  TraceCoverage coverage;

  // The interned text, which is always valid UTF-8. Empty for kNone. Equal ids mean equal texts.
  std::string_view text(std::uint32_t id) const;
  std::uint32_t text_count() const;
  // duration_ns, but not longer than until the next event on its stream starts.
  std::int64_t clipped_duration_ns(std::size_t device_event) const;
  // The outermost operator around a host event or the event itself, without annotations and Python
  // frames.
  std::uint32_t outermost_operator(std::uint32_t host_event) const;
  // The innermost event of that kind around a host event, or the event itself. kNone if there is
  // none.
  std::uint32_t enclosing(std::uint32_t host_event, HostKind kind) const;

  std::unique_ptr<Texts> texts;
};

// One argument of an operator, as recorded.
struct OperatorInput {
  std::string type;  // "float", "c10::BFloat16", "Scalar", "TensorList" …
  // one for a tensor, several for a list, none for anything else
  std::vector<std::vector<std::int64_t>> shapes;
  bool list = false;
  std::string concrete;  // "[1, 1]", "False", "-1"; empty where not recorded
};
// Parses the text in HostEvents::inputs. Empty if we did not write it.
std::vector<OperatorInput> parse_inputs(std::string_view text);

// Reads a file of JSON (array or object form), plain, gzip or zstd; "-" is standard input. A
// truncated or partly malformed file is read as far as possible, and `coverage` says so. A file
// that is no trace, or that holds no event, is an error.
Result<Trace> read_trace(const std::string& path, const ReadOptions& options = {});
// The same for bytes in memory. Messages use `name`.
Result<Trace> read_trace_bytes(std::string_view bytes, const std::string& name,
                               const ReadOptions& options = {});
// Reads several files, as mfu::read_traces() does.
Result<std::vector<Trace>> read_trace_files(const std::vector<std::string>& paths,
                                            const ReadOptions& options = {});

}  // namespace mfu
