// The columns of a trace: device events, launches, host events and what they refer to. All times
// are integer nanoseconds on the file's own clock, as recorded.
#pragma once

#include <cstdint>
#include <optional>

#include "trace/column.h"

namespace mfu {

// kNone means "no such row" in a column of row numbers or text ids. kNoId means "not recorded" in a
// column of ids or sizes.
inline constexpr std::uint32_t kNone = UINT32_MAX;
inline constexpr std::int64_t kNoId = INT64_MIN;

// A kernel is `communication` by its name (nccl, rccl, hccl, NVSHMEM, DeepEP, one-shot all-reduce)
// or if the collective that launched it says so. Otherwise it is `compute`.
enum class DeviceKind : std::uint8_t { compute, communication, memcpy, memset };

// Kernels, copies and sets, sorted by start. Row i of every column is the same event.
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

// What a runtime call does for the device.
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
// the optimizer) and Python frames. They are sorted by thread, then start; an enclosing event comes
// before the events inside it.
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

}  // namespace mfu
