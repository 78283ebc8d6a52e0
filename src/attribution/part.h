// What one trace contributes to an explanation: all that is known before the device's peak and the
// other ranks are. attribute() takes such parts from traces or from files, with the same result to
// the last digit. Peaks and waiting times are known only at the end, so times are not summed yet.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attribution/idle.h"
#include "attribution/work.h"
#include "trace/collective.h"

namespace mfu {

// The peak that a matmul is compared with: that of its type, or of TF32 if its kernels use it.
struct PeakKey {
  ElementType type = ElementType::unknown;
  bool tf32 = false;
  bool operator==(const PeakKey&) const = default;
};

struct PartCost {  // the cost of one call of an operator with its arguments
  FlopCount model_flop, hardware_flop;
  std::uint64_t moved_bytes = 0;  // 0 if not known
  ElementType type = ElementType::unknown;
};

// One call in the window whose FLOPs are known and were needed.
struct PartCall {
  std::uint32_t cost = 0;  // index in RankPart::costs
  bool tf32 = false;
  std::int64_t duration_ns = 0;    // sum over its kernels in the trace
  double inside = 0;               // share of duration_ns in the window
  std::int64_t attributed_ns = 0;  // the time it owned as a useful matmul; attribute() sets it
};

// Time of one level in the window. Neighbours are joined if nobody needs to tell them apart.
struct PartSpan {
  std::int64_t start_ns = 0, end_ns = 0;  // a collective keeps its times, also beyond the window
  Level level = Level::other;
  std::uint32_t call = kNone;   // index in RankPart::calls; set only for Level::matmul
  std::uint32_t place = kNone;  // index in Communication::events; set only for Level::communication
};

struct PartFlop {  // sum over all calls of one type in the window
  PeakKey key;
  FlopCount model_flop, hardware_flop;
};

struct PartOperator {
  OperatorLine line;  // without the values that need a peak
  bool counted = false;
  PeakKey key;  // only for a counted operator
};

struct PartLaneSpan {
  std::int64_t start_ns = 0, end_ns = 0;
  Level level = Level::other;
  PeakKey key;                         // only for Level::matmul
  std::uint32_t name = 0, events = 1;  // as in LaneSpan
};
struct PartLane {
  std::string label;
  std::vector<std::string> names;
  std::vector<PartLaneSpan> spans;
};

// A call on a CPU whose FLOPs are known, with its settled time (settled.h).
struct SettledCall {
  std::uint32_t cost = 0;  // of RankPart::costs
  bool tf32 = false, recomputed = false, in_optimizer = false;
  double inside = 0;
  std::int64_t own_ns = 0;
};

// What operators of a CPU took once settled, as far as the rules ask.
struct HostUse {
  struct Operators {
    std::uint64_t count = 0;
    std::int64_t own_ns = 0, overhead_ns = 0;
  };
  std::int64_t optimizer_ns = 0;          // in which tensors are updated (habits.h)
  std::int64_t optimizer_held_up_ns = 0;  // part of it: calls that other processes held up
  std::uint64_t optimizer_tensors = 0;    // how often the most called operator was called
  // outside Optimizer.step; rows taken one by one; recurrent cells called (habits.h)
  std::uint64_t by_hand = 0, rows_taken = 0, cells_called = 0;
  Operators optimizer, others, all;  // inside the optimizer, outside of it, and both
  std::uint64_t items = 0;           // values read one by one, outside the optimizer
  std::int64_t fusible_ns = 0;       // no matmuls: what one kernel for those in a row would save
  std::int64_t recomputed_ns = 0, most_overhead_ns = 0;  // of one call, in addition to its work
  double stretch = 1;              // by how much other processes slowed all work down
  std::vector<SettledCall> calls;  // with_overhead() adds their overhead, which needs the peak
  std::int64_t stretched(std::int64_t settled_ns) const {
    return static_cast<std::int64_t>(stretch * static_cast<double>(settled_ns));
  }
};

struct RankPart {  // one device of the trace
  std::int64_t device_id = 0;
  std::string device_name;  // as the trace names it; "CPU" for the CPU
  std::optional<std::uint32_t> units;
  std::optional<std::uint64_t> memory_bytes;
  bool cpu = false;
  Window window;
  std::vector<std::string> window_notes, assumptions;  // codes of notes that have no values
  bool steps_marked = false;
  // with their idle lines; one for the whole window if none is marked
  std::vector<StepLedger> steps;
  Intervals intervals;
  std::vector<PartCost> costs;
  std::vector<PartCall> calls;
  std::vector<PartSpan> spans;  // by start
  std::vector<PartFlop> flop;   // the type of the last call comes last
  std::vector<PartOperator> operators;
  std::vector<KernelLine> kernels;
  std::vector<IdleLine> idle;
  std::vector<Gap> gaps;
  IdleTally tally;
  HostUse host;
  AttributionCoverage coverage;
  std::vector<PartLane> timeline;  // only if it was asked for
};

// What is known about a trace without its ranks. It is small enough to hold a thousand of them.
struct TraceOutline {
  std::string path;
  std::optional<std::int64_t> rank, world_size;
  std::uint64_t json_bytes = 0;
  bool truncated = false;
  bool compiled = false;   // code of torch.compile runs in it
  bool optimizer = false;  // an optimizer's step is marked in it
  std::vector<Note> notes;
  std::vector<std::string> secrets;
  Communication communication;
  std::vector<std::uint32_t> communicating;  // the rank that each event ran on
  std::size_t ranks = 0;
};

struct TracePart {
  TraceOutline outline;
  std::vector<RankPart> ranks;
};

// Only the options of the window, the timeline and the waits are used. Fails with
// `invalid_argument` if the window holds nothing. Any number of threads gives the same result.
Result<TracePart> condense(const Trace& trace, const AttributionOptions& options,
                           unsigned threads = 1);

}  // namespace mfu
