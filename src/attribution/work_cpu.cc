#include <algorithm>

#include "attribution/names.h"
#include "attribution/work.h"

namespace mfu {

namespace {

// What the enclosing rows say about a host row. It is passed on from the outer to the inner row.
struct Inherited {
  std::uint32_t call = kNone;  // a counted operator around it
  bool inside_operator = false;
  bool data = false;
  bool recomputed = false;
  bool compiles = false;
};

class CpuWorks {
 public:
  explicit CpuWorks(const Trace& trace)
      : trace_(trace), table_(trace), inherited_(trace.host.size()), counts_(trace.host.size()) {}

  Works take() {
    mark_counting();
    for (std::uint32_t row = 0; row < trace_.host.size(); ++row) visit(row);
    std::stable_sort(works_.spans.begin(), works_.spans.end(),
                     [](const WorkSpan& a, const WorkSpan& b) { return a.start_ns < b.start_ns; });
    works_.costs = table_.take();
    return std::move(works_);
  }

 private:
  // Finds the rows that count: leaves and covers, and wrappers with a formula that contain no
  // counted row. A row comes after its parent, so going backwards, every row is seen before its
  // parent.
  void mark_counting() {
    std::vector<std::uint8_t> inside(trace_.host.size());
    for (std::uint32_t row = static_cast<std::uint32_t>(trace_.host.size()); row-- > 0;) {
      const Operator* op = operator_of(row);
      bool counts = false;
      if (op != nullptr) {
        counts = op->role == OperatorRole::leaf || op->role == OperatorRole::cover ||
                 (op->role == OperatorRole::wrapper && op->formula != nullptr && inside[row] == 0);
      }
      counts_[row] = counts ? 1 : 0;
      std::uint32_t parent = trace_.host.parent[row];
      if (parent != kNone && (counts || inside[row] != 0)) inside[parent] = 1;
    }
    wraps_ = std::move(inside);
  }

  const Operator* operator_of(std::uint32_t row) {
    if (trace_.host.kind[row] != HostKind::op) return nullptr;
    return table_.operator_of(trace_.host.name[row]);
  }

  void visit(std::uint32_t row) {
    std::uint32_t parent = trace_.host.parent[row];
    Inherited state = parent == kNone ? Inherited{} : inherited_[parent];
    std::uint32_t name = trace_.host.name[row];
    bool op = trace_.host.kind[row] == HostKind::op;
    bool recomputed = op && trace_.host.recomputed[row] != 0;
    state.data = state.data || table_.is_data_loading(name);
    if (state.data) {
      inherited_[row] = state;
      return;
    }
    bool compiles = op && names_compilation(trace_.text(name));
    // A function of Python's that calls matmuls (a checkpoint) is no operator, and neither is a
    // backward that runs a whole backward again. What they call are the operators. A compiler also
    // calls matmuls, to learn the shapes of what they give.
    bool backward = op && trace_.text(name).starts_with("autograd::engine::evaluate_function");
    bool function = trace_.text(name).find("::") == std::string_view::npos;
    if (wraps_[row] != 0 && function && !compiles) op = false;
    bool communication = table_.is_communication(name) && trace_.host.kind[row] != HostKind::python;
    if (counts_[row] != 0 && state.call == kNone) {
      state.call = add_call(row, state.recomputed || recomputed);
    } else if (recomputed && !state.recomputed && state.call == kNone) {
      add_span(row, Level::recomputation, kNone);
    } else if (communication && !state.inside_operator) {
      add_span(row, Level::communication, kNone);
      op = true;
    } else if (op && (!state.inside_operator || backward || (compiles && !state.compiles))) {
      // The compiler runs inside the code that it compiles, so its time is subtracted.
      add_span(row, Level::other, kNone);
    }
    state.compiles = state.compiles || compiles;
    state.recomputed = state.recomputed || recomputed;
    state.inside_operator = state.inside_operator || op;
    inherited_[row] = state;
  }

  void add_span(std::uint32_t row, Level level, std::uint32_t call) {
    WorkSpan& span = works_.spans.emplace_back();
    span.start_ns = trace_.host.start_ns[row];
    span.end_ns = span.start_ns + std::max<std::int64_t>(trace_.host.duration_ns[row], 0);
    span.level = level;
    span.call = call;
    span.event = row;
  }

  std::uint32_t add_call(std::uint32_t row, bool recomputed) {
    WorkCall& call = works_.calls.emplace_back();
    call.host = row;
    call.cost = table_.cost_row(row);
    call.recomputed = recomputed;
    call.duration_ns = std::max<std::int64_t>(trace_.host.duration_ns[row], 0);
    std::uint32_t number = static_cast<std::uint32_t>(works_.calls.size() - 1);
    add_span(row, Level::matmul_unknown, number);
    return number;
  }

  const Trace& trace_;
  CostTable table_;
  Works works_;
  std::vector<Inherited> inherited_;
  std::vector<std::uint8_t> counts_;
  std::vector<std::uint8_t> wraps_;  // by row: a counted operator is inside
};

}  // namespace

Works cpu_works_of(const Trace& trace) {
  return CpuWorks(trace).take();
}

}  // namespace mfu
