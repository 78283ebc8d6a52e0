// What each device event was for: which operator's call it served, what that call cost, and on
// which level of the ledger it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "mfu/attribution.h"
#include "mfu/ops.h"
#include "mfu/utilization.h"
#include "trace/trace.h"

namespace mfu {

// If several events are on the device, the instant goes to the lowest value.
enum class Level : std::uint8_t {
  matmul,          // useful, with known FLOPs; without a peak it is treated like the next
  matmul_unknown,  // a matmul whose FLOPs are not known
  recomputation,
  other,
  communication,
  copy
};
inline constexpr std::size_t kLevelCount = 6;

// The cost of one operator with one set of arguments.
struct CostEntry {
  std::uint32_t name = kNone, inputs = kNone;  // indices of texts of the trace
  const Operator* op = nullptr;
  std::optional<OperatorCost> cost;
  std::string reason;  // why there is no cost
};

// One call of an operator that is counted, or that should be.
struct WorkCall {
  std::uint32_t host = kNone;
  std::uint32_t cost = kNone;  // index in Works::costs
  bool recomputed = false;
  bool tf32 = false;
  std::int64_t duration_ns = 0;  // sum over its compute kernels in the trace
  double inside = 0;             // share of duration_ns in the window
};

// A device event that was classified. On a CPU, the time of an operator on its thread.
struct WorkSpan {
  std::int64_t start_ns = 0, end_ns = 0;
  Level level = Level::other;
  std::uint32_t call = kNone;   // index in Works::calls
  std::uint32_t event = kNone;  // index in Trace::device; on a CPU in Trace::host
};

// The part of its time that lies in the window.
inline std::int64_t inside_ns(const WorkSpan& span, const Window& window) {
  return std::max<std::int64_t>(
      0, std::min(span.end_ns, window.end_ns) - std::max(span.start_ns, window.start_ns));
}

struct Works {
  std::vector<WorkSpan>
      spans;  // by start; durations cut where they overran the next on their stream
  std::vector<WorkCall> calls;
  std::vector<CostEntry> costs;
  std::vector<UncountedLine> uncounted;  // operators that should have FLOPs and have none
};

// Classifies the events of one device of the trace.
Works works_of(const Trace& trace, std::int64_t device);
// The same if the CPU is the device: its operators are the work, except those that load data.
Works cpu_works_of(const Trace& trace);
// Call it after works_of. Sets the level of spans that serve a call, and finds calls whose FLOPs
// are not known.
void classify_calls(const Trace& trace, Works& works);

// Why a matmul kernel has no FLOPs if a library launched it past the dispatcher.
inline constexpr std::string_view kNoOperator = "a matmul kernel that no known operator launched";

// Costs by operator and arguments. Each is computed once.
class CostTable {
 public:
  explicit CostTable(const Trace& trace) : trace_(trace), facts_(trace.text_count()) {}

  const Operator* operator_of(std::uint32_t name);
  bool looks_flop_carrying(std::uint32_t name);
  bool is_matmul_kernel(std::uint32_t name);
  bool is_tf32_kernel(std::uint32_t name);
  bool is_data_loading(std::uint32_t name);
  bool is_communication(std::uint32_t name);
  // The row of costs() for that host event.
  std::uint32_t cost_row(std::uint32_t host);
  std::vector<CostEntry> take() { return std::move(costs_); }
  const std::vector<CostEntry>& costs() const { return costs_; }

 private:
  struct Facts {
    const Operator* op = nullptr;
    bool known = false, flop_carrying = false, matmul = false, tf32 = false, data = false,
         communication = false;
  };
  const Facts& facts(std::uint32_t name);
  CostEntry work_out(std::uint32_t name, std::uint32_t inputs);

  const Trace& trace_;
  std::vector<Facts> facts_;
  std::vector<CostEntry> costs_;
  std::unordered_map<std::uint64_t, std::uint32_t> rows_;
  ArgumentList arguments_;
};

// The shapes of the tensors that an operator got: "[128,256] [256,512]".
std::string shapes_text(std::string_view recorded_inputs);

}  // namespace mfu
