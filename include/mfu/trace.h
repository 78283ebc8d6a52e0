// What a profiler file says: a Kineto (PyTorch profiler) trace as columns, linked from device event
// to launch to host operator. All times are integer nanoseconds on the file's own clock, as
// recorded.
//
//   auto trace = mfu::read_trace("rank0.pt.trace.json.gz");
//   if (!trace.has_value()) return trace.error();
//   const mfu::DeviceEvents& device = trace->device;
//   for (std::size_t i = 0; i < device.size(); ++i) {
//     std::uint32_t launch = device.launch[i];
//     std::uint32_t host = launch == mfu::kNone ? mfu::kNone : trace->launches.host[launch];
//     if (host != mfu::kNone) use(trace->text(device.name[i]),
//     trace->text(trace->host.name[host]));
//   }
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/column.h"
#include "mfu/result.h"

namespace mfu {

// "No such row" in a column of row numbers or of text ids; "not recorded" in a column of ids or
// sizes.
inline constexpr std::uint32_t kNone = UINT32_MAX;
inline constexpr std::int64_t kNoId = INT64_MIN;

// A kernel is `communication` by its name (nccl, rccl, hccl, NVSHMEM, DeepEP, one-shot all-reduce)
// or by what the collective that launched it recorded; `compute` otherwise.
enum class DeviceKind : std::uint8_t { compute, communication, memcpy, memset };

// Kernels, copies and sets, sorted by start. Row i of every column is one event.
struct DeviceEvents {
  Column<std::int64_t> start_ns, duration_ns;  // as recorded; see Trace::clipped_duration_ns
  Column<std::uint32_t> name;                  // text
  Column<DeviceKind> kind;
  Column<std::uint32_t> lane;        // row of Trace::lanes: which device, which stream
  Column<std::int64_t> correlation;  // kNoId where not recorded
  Column<std::int64_t> external_id;  // kNoId where not recorded
  Column<std::int64_t> graph_node;   // "graph node id" of CUDA graphs; kNoId outside graphs
  Column<std::int64_t> bytes;        // of copies and sets; kNoId where not recorded
  Column<std::uint32_t> geometry;    // text "[grid][block]" as recorded, or kNone
  Column<std::uint32_t> launch;      // row of Trace::launches, or kNone: no launch record
  Column<std::uint32_t> host;        // row of Trace::host, by launch, else by external id
  Column<std::uint32_t> collective;  // row of Trace::collectives, or kNone
  std::size_t size() const { return start_ns.size(); }
};

// What a runtime call is to the device.
enum class LaunchKind : std::uint8_t {
  other,        // queries, allocations, attributes …
  kernel,       // cudaLaunchKernel*, cuLaunchKernel*, hip*LaunchKernel …
  graph,        // cudaGraphLaunch, hipGraphLaunch: many kernels, one launch
  copy,         // cudaMemcpy*, cudaMemset*, hipMemcpy* …
  synchronize,  // the host waits: *Synchronize, hipEventSynchronize, synchronous cudaMemcpy is
                // `copy`
};

// Calls into the CUDA, HIP, XPU or MTIA runtime and driver, sorted by thread, then start.
struct Launches {
  Column<std::int64_t> start_ns, duration_ns;
  Column<std::uint32_t> name;  // text
  Column<LaunchKind> kind;
  Column<std::uint32_t> thread;      // row of Trace::threads
  Column<std::int64_t> correlation;  // kNoId where not recorded
  Column<std::int64_t> external_id;  // kNoId where not recorded
  Column<std::uint32_t> host;        // innermost host event of any kind it ran in; kNone: in none
  std::size_t size() const { return start_ns.size(); }
};

enum class HostKind : std::uint8_t { op, annotation, python };

// Operators (cpu_op), annotations (user_annotation: ProfilerStep#N, enumerate(DataLoader)#…, DDP,
// the optimizer) and Python frames, sorted by thread, then start, the enclosing before the
// enclosed.
struct HostEvents {
  Column<std::int64_t> start_ns, duration_ns;
  Column<std::uint32_t> name;  // text
  Column<HostKind> kind;
  Column<std::uint32_t> thread;      // row of Trace::threads
  Column<std::int64_t> external_id;  // kNoId where not recorded
  Column<std::int64_t> sequence;     // autograd's sequence number; kNoId where not recorded
  Column<std::uint32_t> inputs;      // text to give to parse_inputs(), or kNone
  Column<std::uint32_t> stack;       // text: recorded "Call stack" or module hierarchy, or kNone
  Column<std::uint32_t> parent;      // the event it ran in, on its thread; kNone: outermost
  Column<std::uint32_t> forward;     // of a backward operator: the forward one; kNone otherwise
  Column<std::uint32_t> collective;  // of record_param_comms: row of Trace::collectives
  Column<std::uint8_t> backward;     // 1: run inside a backward
  Column<std::uint8_t> recomputed;   // 1: of a forward run again inside a backward
  std::size_t size() const { return start_ns.size(); }
};

struct Lane {  // one stream of one device
  std::int64_t device = 0, stream = 0;
};
struct Thread {
  std::int64_t process = 0, id = 0;
  std::uint32_t host_begin = 0, host_end = 0;      // its rows of Trace::host
  std::uint32_t launch_begin = 0, launch_end = 0;  // its rows of Trace::launches
};
struct ProfilerStep {  // ProfilerStep#number, by start
  std::int64_t number = 0, start_ns = 0, duration_ns = 0;
  std::uint32_t host = kNone;
};
struct Collective {             // what record_param_comms or the kernel itself recorded
  std::uint32_t name = kNone;   // text: "allreduce", "_allgather_base", "all_to_all" …
  std::uint32_t group = kNone;  // text: process group's name
  std::uint32_t ranks = kNone;  // text: "[0, 1, 2, 3]"
  std::uint32_t dtype = kNone;  // text: "Float", "BFloat16" …
  std::optional<std::int64_t> elements_in, elements_out, group_size, sequence;
  std::uint32_t host = kNone;  // the record_param_comms row, if any
};
struct Clip {  // an event that overran the next one on its stream
  std::uint32_t event = 0;
  std::int64_t duration_ns = 0;  // up to the next one's start
};

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

// Reads a file: JSON (array or object form), plain, gzip or zstd; "-" is standard input. A
// truncated or partly malformed file is read as far as it goes (coverage says so); a file that
// holds no event is an error, as is one that is no trace.
Result<Trace> read_trace(const std::string& path, const ReadOptions& options = {});
// The same from memory; `name` stands in messages.
Result<Trace> read_trace_bytes(std::string_view bytes, const std::string& name,
                               const ReadOptions& options = {});
// Several files, or directories of them (*.json, *.json.gz, *.json.zst), in parallel, in rank order
// where the files say their rank.
Result<std::vector<Trace>> read_traces(const std::vector<std::string>& paths,
                                       const ReadOptions& options = {});

}  // namespace mfu
