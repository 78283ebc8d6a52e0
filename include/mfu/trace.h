// Reads profiler files: Kineto traces of the PyTorch profiler. Each is read once, in bounded
// memory, and every device event is linked to its launch and to the operator that launched it.
// mfu/attribution.h says where the time went.
//
//   mfu::Result<mfu::Traces> traces = mfu::read_traces({"rank0.json.gz", "rank1.json.gz"});
//   if (!traces.has_value()) return mfu::Failure{traces.error()};
//   for (std::size_t i = 0; i < traces->size(); ++i) {
//     std::printf("%s: %lu events\n", traces->info(i).path.c_str(), traces->coverage(i).events);
//   }
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mfu/result.h"

namespace mfu {

struct DeviceProperties {
  std::int64_t id = 0;
  std::string name;  // as the driver prints it; may be empty
  std::optional<std::int64_t> memory_bytes, compute_major, compute_minor, multiprocessors;
};
struct ProcessGroup {
  std::string name, description, ranks;  // ranks as recorded: "[0, 1]"
};
struct TraceInfo {
  std::string path, trace_name, backend;
  std::optional<std::int64_t> schema_version, rank, world_size, base_time_ns;
  std::vector<DeviceProperties> devices;
  std::vector<ProcessGroup> groups;
  std::vector<std::pair<std::string, std::string>> other;  // "cuda_runtime_version", "with_stack" …
};

// What was read, what was not, and how much could be linked.
struct TraceCoverage {
  std::uint64_t file_bytes = 0, json_bytes = 0;
  std::uint64_t events = 0;              // objects in the event list
  std::uint64_t ignored_events = 0;      // not needed: counters, metadata, instants, flows
  std::uint64_t skipped_events = 0;      // needed but unusable: no time, not JSON, …
  std::uint64_t repaired_events = 0;     // not JSON, but understood (a bare quote inside a name, …)
  std::uint64_t texts_dropped = 0;       // too many names: these read "(name not kept)"
  std::optional<std::string> truncated;  // why the file ends early; what is before that was read
  std::uint64_t truncated_at_byte = 0;   // byte of the JSON
  std::uint64_t linked = 0;              // device events with a launch record
  std::uint64_t linked_to_operator = 0;  // of these, how many were launched inside an operator
  std::uint64_t graph_launched = 0;      // device events that came from a CUDA graph
  std::uint64_t before_launch = 0;       // device events that start before their launch does
  // Places that seem to hold a credential: `a token in "env.HF_TOKEN"`. Metadata and the parts of
  // events that are kept are searched.
  std::vector<std::string> secrets;
  std::vector<Note> notes;  // what was odd about the file
};

struct ReadProgress {
  std::uint64_t bytes_done = 0;
  std::optional<std::uint64_t> bytes_whole;  // size of all files; none for a pipe
};
struct ReadOptions {
  std::uint64_t memory_bytes = 512u << 20;  // more than this goes to temporary files without a name
  unsigned threads = 0;                     // 0: one per core
  // Called about ten times a second, from any thread.
  std::function<void(const ReadProgress&)> progress = {};
  const std::atomic<bool>* cancel = nullptr;  // set it to true to end reading with an error
  std::string name = {};  // used instead of a single file's path in reports and messages
};

// Which part of a trace is accounted for.
enum class WindowPolicy : std::uint8_t { all, steps, range };
std::string_view name_of(WindowPolicy policy);

struct WindowQuestion {
  // None: steps where the trace marks them, else all.
  std::optional<WindowPolicy> policy{};
  // For `range`. On the trace's clock or, if relative, since the first device event. None: no end.
  std::optional<std::int64_t> from_ns{}, to_ns{};
  bool from_relative = false, to_relative = false;
  bool whole_steps = false;  // for a CPU: steps reach from mark to mark, even if nothing runs
};
// "all", "steps", "FROM:TO". A bare number is nanoseconds on the trace's clock. One with a unit
// (ns, us, ms, s) counts from the first device event. Either side may be empty.
Result<WindowQuestion> parse_window(std::string_view text);

struct Window {
  WindowPolicy policy = WindowPolicy::all;
  std::int64_t start_ns = 0, end_ns = 0;
  std::uint64_t steps = 0;
  std::int64_t duration_ns() const { return end_ns - start_ns; }
};

class Trace;  // the events of one file; not part of the public interface

// The files that were read, ordered by rank if they name their ranks, else as given.
class Traces {
 public:
  explicit Traces(std::vector<Trace> traces);
  ~Traces();
  Traces(Traces&&) noexcept;
  Traces& operator=(Traces&&) noexcept;

  std::size_t size() const;
  // Contract: index < size().
  const TraceInfo& info(std::size_t index) const;
  const TraceCoverage& coverage(std::size_t index) const;

  std::span<const Trace> all() const;  // for attribute()

 private:
  std::unique_ptr<std::vector<Trace>> traces_;
};

// Reads JSON files (array or object form), plain or compressed by gzip or zstd. "-" is standard
// input; a directory stands for the *.json, *.json.gz and *.json.zst in it. Several files are read
// in parallel, and a long one by all threads; the result is the same. A truncated or partly
// malformed file is read as far as possible, and its coverage says so. Fails with `io` or
// `not_found` if a file cannot be read, and with `malformed` if it is not a trace or holds no
// event.
Result<Traces> read_traces(const std::vector<std::string>& paths, const ReadOptions& options = {});

// Writes a trace as gzip, with each of the `hidden` texts replaced by "[hidden]". If it fails, no
// file is left at `to`.
Result<void> compress_trace(const std::string& from, const std::string& to,
                            const std::vector<std::string>& hidden);

}  // namespace mfu
