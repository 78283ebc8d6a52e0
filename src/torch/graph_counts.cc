// Counts compiled graphs and CUDA graphs. Operators inside them do not count themselves. The Python
// glue has a description of each graph, and each call of the graph adds the description's numbers.
#include "mfu/observer.h"
#include "torch/capture.h"
#include "torch/count.h"
#include "torch/register.h"

using namespace mfu::observer;

namespace {

bool counts_graphs(const Thread& thread) {
  return thread.quiet == 0 && (mode.load(std::memory_order_relaxed) & kCounting) != 0;
}

Call call_of(const mfu_observer_graph_row& row) {
  return {.operator_id = row.operator_id,
          .type_id = row.type_id,
          .hardware_flop = row.hardware_flop,
          .model_flop = row.model_flop,
          .leading = row.leading,
          .device = static_cast<std::int16_t>(row.device)};
}

}  // namespace

int mfu_observer_open_operator(const char* name) {
  return open_operator(name) ? 1 : 0;
}

// The pass begins before the graph runs, so that the graph's time is part of it.
void mfu_observer_enter_graph(const struct mfu_observer_graph_row* rows, size_t count, int opens) {
  Thread& thread = this_thread;
  if (count != 0 && counts_graphs(thread) && !join_capture(thread)) {
    enter(thread, call_of(rows[0]));
  }
  thread.quiet += 1;
  if (thread.quiet == 1) thread.opened = opens != 0;
}

void mfu_observer_leave_graph(const struct mfu_observer_graph_row* rows, size_t count) {
  Thread& thread = this_thread;
  if (thread.quiet != 0) --thread.quiet;
  if (thread.quiet == 0) thread.opened = false;
  if (!counts_graphs(thread)) return;
  for (size_t i = 0; i < count; ++i) {
    count_graph(thread, call_of(rows[i]),
                {.calls = rows[i].calls, .recomputed_flop = rows[i].recomputed_flop});
  }
}

void mfu_observer_capture_begin(int host_too) {
  begin_capture(this_thread, host_too != 0);
}

size_t mfu_observer_capture_end(struct mfu_observer_graph_row* rows, size_t capacity) {
  std::vector<Captured> captured = end_capture(this_thread);
  for (size_t i = 0; i < captured.size() && i < capacity; ++i) {
    const Captured& each = captured[i];
    rows[i] = {.operator_id = each.operator_id,
               .type_id = each.type_id,
               .calls = each.calls,
               .hardware_flop = each.hardware_flop,
               .model_flop = each.model_flop,
               .recomputed_flop = 0,
               .leading = each.leading,
               .device = each.device};
  }
  return captured.size();
}

void mfu_observer_replay(const struct mfu_observer_graph_row* rows, size_t count) {
  // A CUDA graph inside a compiled graph: its rows are only the operators that the compiled graph
  // calls by name, so they count although the rest of it is quiet.
  Opening opening(this_thread, true);
  this_thread.quiet += 1;
  mfu_observer_leave_graph(rows, count);
}
