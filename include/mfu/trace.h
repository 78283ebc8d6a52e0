// What profiler files say: Kineto (PyTorch profiler) traces, read once, in bounded memory, linked
// from device event to launch to host operator. What comes of them is in mfu/attribution.h.
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
#include <utility>
#include <vector>

#include "mfu/result.h"

namespace mfu {

struct DeviceProperties {
  std::int64_t id = 0;
  std::string name;  // as the driver says it; may be empty
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

// What was read, what was not, and how well it hangs together.
struct TraceCoverage {
  std::uint64_t file_bytes = 0, json_bytes = 0;
  std::uint64_t events = 0;           // objects in the event list
  std::uint64_t ignored_events = 0;   // counters, metadata, instants, flows: nothing to account for
  std::uint64_t skipped_events = 0;   // should have been used and could not: no time, not JSON …
  std::uint64_t repaired_events = 0;  // not JSON, yet understood (a bare quote inside a name …)
  std::uint64_t texts_dropped = 0;    // names beyond what is kept: they read "(name not kept)"
  std::optional<std::string> truncated;  // why it ended early; the rest was read
  std::uint64_t truncated_at_byte = 0;   // of the JSON
  std::uint64_t linked = 0;              // device events with a launch record
  std::uint64_t linked_to_operator = 0;  // … that ran in an operator
  std::uint64_t graph_launched = 0;
  std::uint64_t before_launch = 0;  // device events that start before their launch does
  // Where the file carries what looks like a credential: `a token in "env.HF_TOKEN"`. Metadata and
  // what is kept of events are looked at.
  std::vector<std::string> secrets;
  std::vector<std::string> notes;  // one line each, for people
};

struct ReadProgress {
  std::uint64_t bytes_done = 0;
  std::optional<std::uint64_t> bytes_whole;  // of the files; none for a pipe
};
struct ReadOptions {
  std::uint64_t memory_bytes = 512u << 20;  // columns beyond this go to unlinked temporary files
  unsigned threads = 0;                     // 0: as many as there are cores
  std::function<void(const ReadProgress&)> progress =
      {};                                     // about ten times a second, from any thread
  const std::atomic<bool>* cancel = nullptr;  // set it, and reading ends with an error
};

class Trace;  // one file's events; what is in it may change at any time

// The files that were read, in rank order where they say their rank, else in the order given.
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

// Reads files: JSON (array or object form), plain, gzip or zstd; "-" is standard input; a directory
// stands for the *.json, *.json.gz and *.json.zst in it. Several are read in parallel. A truncated
// or partly malformed file is read as far as it goes (coverage says so). `io` or `not_found` where
// one cannot be read, `malformed` where one holds no event or is no trace.
Result<Traces> read_traces(const std::vector<std::string>& paths, const ReadOptions& options = {});

// A trace as gzip, whole or not at all, each of the `hidden` texts in it replaced by "[hidden]".
Result<void> compress_trace(const std::string& from, const std::string& to,
                            const std::vector<std::string>& hidden);

}  // namespace mfu
