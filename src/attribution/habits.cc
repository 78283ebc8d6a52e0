#include "attribution/habits.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "trace/trace.h"

namespace mfu {

namespace {

constexpr std::int64_t kNoStart = -1;
constexpr std::string_view kEngine = "autograd::engine::evaluate_function";
// A loop updates at least so many tensors, one after another.
constexpr std::uint64_t kManyTensors = 12;
// A loop over rows takes at least so many different ones in a step.
constexpr std::uint64_t kManyRows = 16;

// Operators by which loops update weights in place. Those that draw numbers are not among them.
bool updates_in_place(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "aten::add_",  "aten::sub_",     "aten::mul_",     "aten::div_",   "aten::copy_",
      "aten::lerp_", "aten::addcmul_", "aten::addcdiv_", "aten::clamp_", "aten::sqrt_"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// By row: whether a backward belongs to it, or to an operator inside it.
std::vector<bool> differentiated(const Trace& trace) {
  std::vector<bool> found(trace.host.size());
  for (std::uint32_t row = 0; row < trace.host.size(); ++row) {
    std::uint32_t forward = trace.host.forward[row];
    while (forward != kNone && !found[forward]) {
      found[forward] = true;
      forward = trace.host.parent[forward];
    }
  }
  return found;
}

std::int64_t inside(const Window& window, std::int64_t start_ns, std::int64_t end_ns) {
  return std::max<std::int64_t>(
      0, std::min(end_ns, window.end_ns) - std::max(start_ns, window.start_ns));
}

// Shapes and types of the inputs, without the values of those that are no tensors.
std::string_view shapes_of(std::string_view inputs) {
  return inputs.substr(0, inputs.rfind('|'));
}

}  // namespace

bool reads_value(std::string_view name) {
  return name == "aten::item" || name == "aten::is_nonzero";
}

Updates::Updates(const Trace& trace, const Works& works)
    : trace_(trace), by_hand_(trace.host.size()) {
  find_steps();
  find_loops(works);
}

void Updates::find_steps() {
  bool any = false;
  for (std::uint32_t row = 0; row < trace_.host.size(); ++row) {
    std::string_view name = trace_.text(trace_.host.name[row]);
    if (name.starts_with("Optimizer.step")) {
      if (!any) step_starts_.assign(trace_.host.size(), kNoStart);
      any = true;
      step_starts_[row] = trace_.host.start_ns[row];
    } else if (any && name.starts_with(kEngine)) {
      std::uint32_t range = around(row);
      if (range == kNone) continue;
      std::int64_t end = trace_.host.start_ns[row] + trace_.host.duration_ns[row];
      step_starts_[range] = std::max(step_starts_[range], end);
    }
  }
}

// A loop of updates is a row of operators without a matmul, without a backward and without a value
// that is read. Nothing differentiates them, and many of them write in place.
void Updates::find_loops(const Works& works) {
  std::vector<bool> has_backward = differentiated(trace_);
  std::vector<std::uint32_t> row_of;
  std::map<std::uint32_t, std::uint64_t> in_place;
  auto finish = [&] {
    std::uint64_t tensors = 0;
    for (const auto& [name, count] : in_place) tensors = std::max(tensors, count);
    if (tensors >= kManyTensors) {
      for (std::uint32_t row : row_of) by_hand_[row] = 1;
      std::uint32_t last = row_of.back();
      loops_.push_back({trace_.host.start_ns[row_of.front()],
                        trace_.host.start_ns[last] + trace_.host.duration_ns[last]});
    }
    row_of.clear();
    in_place.clear();
  };
  for (const WorkSpan& span : works.spans) {
    std::string_view name = trace_.text(trace_.host.name[span.event]);
    bool plain = span.level == Level::other && span.call == kNone && !has_backward[span.event] &&
                 !name.starts_with(kEngine) && !reads_value(name) && !in_step(span.event);
    if (!plain) {
      finish();
      continue;
    }
    bool updates = updates_in_place(name);
    if (row_of.empty() && !updates) continue;  // what comes before the first update is no loop
    row_of.push_back(span.event);
    if (updates) ++in_place[trace_.host.name[span.event]];
  }
  finish();
}

std::uint32_t Updates::around(std::uint32_t row) const {
  while (row != kNone && step_starts_[row] == kNoStart) row = trace_.host.parent[row];
  return row;
}

bool Updates::in_step(std::uint32_t row) const {
  if (step_starts_.empty()) return false;
  std::uint32_t range = around(row);
  return range != kNone && trace_.host.start_ns[row] >= step_starts_[range];
}

std::int64_t Updates::inside_ns(const Window& window) const {
  std::int64_t ns = 0;
  for (std::uint32_t row = 0; row < step_starts_.size(); ++row) {
    if (step_starts_[row] == kNoStart) continue;
    ns +=
        inside(window, step_starts_[row], trace_.host.start_ns[row] + trace_.host.duration_ns[row]);
  }
  for (const Range& loop : loops_) ns += inside(window, loop.start_ns, loop.end_ns);
  return ns;
}

std::uint64_t rows_taken(const Trace& trace, const Works& works, const Window& window,
                         std::uint64_t steps) {
  struct Taken {
    std::uint64_t calls = 0;
    std::set<std::uint32_t> places;  // texts of the inputs, which tell which row was taken
  };
  std::map<std::pair<std::uint32_t, std::string_view>, Taken> taken;
  for (const WorkSpan& span : works.spans) {
    std::uint32_t inputs = trace.host.inputs[span.event];
    if (inside_ns(span, window) <= 0 || inputs == kNone) continue;
    std::uint32_t name = trace.host.name[span.event];
    std::string_view text = trace.text(name);
    if (text != "aten::select" && text != "aten::slice") continue;
    Taken& sum = taken[{name, shapes_of(trace.text(inputs))}];
    ++sum.calls;
    sum.places.insert(inputs);
  }
  std::uint64_t most = 0;
  for (const auto& [which, sum] : taken) {
    if (sum.places.size() >= kManyRows) most = std::max(most, sum.calls / steps);
  }
  return most >= kManyRows ? most : 0;
}

std::uint64_t cells_called(const Trace& trace, const Works& works, const Window& window,
                           std::uint64_t steps) {
  std::uint64_t cells = 0;
  for (const WorkSpan& span : works.spans) {
    std::string_view name = trace.text(trace.host.name[span.event]);
    bool cell = name == "aten::lstm_cell" || name == "aten::gru_cell" ||
                name == "aten::rnn_tanh_cell" || name == "aten::rnn_relu_cell";
    if (cell && inside_ns(span, window) > 0) ++cells;
  }
  return cells / steps;
}

}  // namespace mfu
