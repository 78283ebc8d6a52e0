// From one finished operator to the counters: which pass it was part of, whether checkpointing ran
// it again, how many samples and tokens went in. Everything here is called from inside an operator
// of the training loop: nothing throws, locks or allocates after a thread's first call, and one
// call costs a few dozen instructions: what it does each time is inline, what is rare is behind a
// call.
#pragma once

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "record/recorder.h"
#include "torch/thread.h"

namespace mfu::observer {

// One call of an operator, as counted.
struct Call {
  unsigned operator_id = 0;
  unsigned type_id = 0;
  std::uint64_t hardware_flop = 0;
  std::uint64_t model_flop = 0;
  std::uint64_t bytes = 0;
  std::int64_t leading = 0;  // size of the first dimension of its input: samples, where nothing
                             // better says
};
inline void count_call(Thread& thread, const Call& call) noexcept;

// The same for a compiled graph: many calls at once, some of which the graph itself runs again.
struct Many {
  std::uint64_t calls = 1;
  std::uint64_t recomputed_flop = 0;
};
void count_graph(Thread& thread, const Call& call, const Many& many) noexcept;

// Lookups in an embedding table.
struct Lookup {
  std::uint64_t rows = 0;     // of the table
  std::uint64_t tokens = 0;   // indices
  std::uint64_t samples = 0;  // their leading dimension
};
void count_lookup(Thread& thread, const Lookup& lookup) noexcept;

// An operator whose FLOPs are not known; `operator_id` carries the reason.
void count_unknown(Thread& thread, unsigned operator_id) noexcept;

// Numbers of names, the same in every process of a run.
unsigned operator_id(std::string_view name, std::string_view reason = {});
unsigned type_id(std::string_view name);

// A backward with create_graph is under way in some thread; told by the Python glue.
void change_create_graph(int change) noexcept;

// The next forward operator begins a new pass: a batch was fetched, a step ended.
void begin_epoch() noexcept;
// Ends the pass of this thread: its samples are booked, its time as a validation pass too.
void end_pass(Thread& thread) noexcept;
// Books the samples of the pass under way, for a reader.
void book_samples(Thread& thread) noexcept;

std::uint64_t now_ns() noexcept;  // CLOCK_MONOTONIC

// Bumped where a forward pass that comes next must be a new one: each backward, batch and step.
inline constinit std::atomic<std::uint64_t> epoch{1};

void bind_thread(Thread& thread) noexcept;
void change_pass(Thread& thread, Pass pass, int task, std::int64_t leading) noexcept;
// Inside backward with grad mode on.
bool runs_again() noexcept;

// Where this operator belongs; true: checkpointing runs it again.
inline bool enter(Thread& thread, std::int64_t leading) noexcept {
  if (thread.recorder == nullptr) [[unlikely]]
    bind_thread(thread);
  int task = torch::autograd::get_current_graph_task_id();
  bool grad = thread.autograd->get_grad_mode();
  Pass pass = Pass::backward;
  if (task == -1) {
    if (thread.optimizing != 0 && !grad) return false;  // with grad: a closure's own forward
    pass = grad || thread.checkpointed != 0 ? Pass::training : Pass::forward_only;
  }
  bool new_epoch = task == -1 && thread.epoch_seen != epoch.load(std::memory_order_relaxed);
  if (pass != thread.pass || task != thread.graph_task || new_epoch) [[unlikely]] {
    change_pass(thread, pass, task, leading);
  }
  return thread.recomputing != 0 || (task != -1 && grad && runs_again());
}

inline void count_call(Thread& thread, const Call& call) noexcept {
  thread.calls += 1;
  thread.hardware_flop += call.hardware_flop;
  if (thread.checking) [[unlikely]]
    return;
  CallCost cost{.hardware_flop = call.hardware_flop,
                .model_flop = call.model_flop,
                .recomputed_flop = 0,
                .bytes = call.bytes};
  if (enter(thread, call.leading)) [[unlikely]] {
    cost.model_flop = 0;
    cost.recomputed_flop = call.hardware_flop;
    thread.recomputed_flop += cost.recomputed_flop;
  }
  thread.model_flop += cost.model_flop;
  thread.recorder->count(*thread.block, call.operator_id, call.type_id, cost);
}

}  // namespace mfu::observer
