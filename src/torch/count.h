// From one finished operator to the counters: which pass it was part of, whether checkpointing ran
// it again, how many samples and tokens went in. Everything here is called from inside an operator
// of the training loop: nothing throws, locks or allocates after a thread's first call. What each
// call does is inline and costs a few dozen instructions; what is rare is behind a call.
#pragma once

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "record/recorder.h"
#include "torch/thread.h"

namespace at {
class Tensor;
}

namespace mfu::observer {

// One call of an operator, as counted.
struct Call {
  unsigned operator_id = 0, type_id = 0;
  std::uint64_t hardware_flop = 0;
  std::uint64_t model_flop = 0;
  std::uint64_t bytes = 0;
  std::int64_t leading = 0;  // size of the first dimension of its input: samples, where nothing
                             // better says
  std::int16_t device = -1;  // type << 8 | index; -1: as the operator before
  // The operand that a model multiplies by, if any: the model's next pass begins with the same.
  const void* weight = nullptr;           // its storage
  std::int64_t offset = 0;                // in it
  const at::Tensor* parameter = nullptr;  // the operand itself, or a view of it
  std::int64_t rows = 0;                  // of each small product, where there are many:
  bool batched = false;                   // then its operand is a weight if a module owns it
  bool small = false;  // of vectors: without grad it begins no pass (spectral norm)
};
inline void count_call(Thread& thread, const Call& call) noexcept;

// The same for a compiled graph: many calls at once, some of which the graph itself runs again.
struct Many {
  std::uint64_t calls = 1;
  std::uint64_t recomputed_flop = 0;
};
void count_graph(Thread& thread, const Call& call, const Many& many) noexcept;

// Lookups in an embedding table.
void count_lookup(Thread& thread, const Lookup& lookup) noexcept;

// An operator whose FLOPs are not known; `operator_id` carries the reason.
void count_unknown(Thread& thread, unsigned operator_id) noexcept;

// Numbers of names, the same in every process of a run.
unsigned operator_id(std::string_view name, std::string_view reason = {});
unsigned type_id(std::string_view name);

// A backward with create_graph is under way in some thread; told by the Python glue.
void change_create_graph(int change) noexcept;

// What attention or a recurrent layer says of the pass under way.
struct Attended {
  std::uint64_t batch = 0, queries = 0, keys = 0;
};
void note_attention(Thread& thread, const Attended& attended) noexcept;
// Batched products: two of them in a row may be attention.
struct Batched {
  std::uint64_t batch = 0, queries = 0, keys = 0, inner = 0, element_bytes = 0;
  const at::Tensor* right = nullptr;
};
void note_batched(Thread& thread, const Batched& product) noexcept;

// The next forward operator begins a new pass: a batch was fetched, a step ended.
void begin_epoch() noexcept;
// A batch is fetched: the pass of this thread is over.
void end_pass(Thread& thread) noexcept;

std::uint64_t now_ns() noexcept;  // CLOCK_MONOTONIC

// Bumped where a forward pass that comes next must be a new one: each backward, batch and step.
inline constinit std::atomic<std::uint64_t> epoch{1};
inline constinit std::atomic<std::uint64_t> backward_epoch{0};  // that the last backward began
void begin_backward() noexcept;

void bind_thread(Thread& thread) noexcept;
void change_pass(Thread& thread, Pass pass, int task, const Call& call) noexcept;
void note_first(Thread& thread, const Call& call) noexcept;
void note_device(Thread& thread, std::int16_t device) noexcept;
void note_backward(Thread& thread) noexcept;
inline constinit std::atomic<std::uint32_t> waiting_passes{0};  // that a backward may come back to
// Inside backward with grad mode on.
bool runs_again() noexcept;

// True: the call is not counted here. It was part of the self-check, or of a captured graph, which
// counts when it is replayed (capture.h).
bool put_aside(Thread& thread, const Call& call, std::uint64_t calls) noexcept;

// Where this operator belongs; true: checkpointing runs it again.
inline bool enter(Thread& thread, const Call& call) noexcept {
  if (thread.recorder == nullptr) [[unlikely]]
    bind_thread(thread);
  if (call.device != thread.device && call.device != -1) [[unlikely]]
    note_device(thread, call.device);
  int task = torch::autograd::get_current_graph_task_id();
  bool grad = thread.autograd->get_grad_mode();
  if (task != -1) {
    if (thread.pass != Pass::backward || task != thread.graph_task) [[unlikely]]
      change_pass(thread, Pass::backward, task, call);
    if (waiting_passes.load(std::memory_order_relaxed) != 0) [[unlikely]]
      note_backward(thread);
    return thread.recomputing != 0 || (grad && runs_again());
  }
  bool recorded = grad || thread.recorded != 0;
  if (!recorded && (thread.optimizing != 0 || call.small)) return thread.recomputing != 0;
  Pass pass = recorded ? Pass::recorded : Pass::plain;
  bool again = call.weight != nullptr &&
               (call.weight == thread.open.first_weight || (!call.batched && thread.open.headed));
  if (pass != thread.pass || again || thread.epoch_seen != epoch.load(std::memory_order_relaxed))
      [[unlikely]] {
    change_pass(thread, pass, -1, call);
  }
  return thread.recomputing != 0;
}

inline void count_call(Thread& thread, const Call& call) noexcept {
  Sums& sums = thread.sums[call.type_id % kRegionTypes];
  if (thread.aside != Thread::Aside::no) [[unlikely]] {
    if (put_aside(thread, call, 1)) return;
  }
  CallCost cost{.hardware_flop = call.hardware_flop,
                .model_flop = call.model_flop,
                .recomputed_flop = 0,
                .bytes = call.bytes};
  if (enter(thread, call)) [[unlikely]] {
    cost.model_flop = 0;
    cost.recomputed_flop = call.hardware_flop;
    sums.recomputed_flop += cost.recomputed_flop;
  }
  if (thread.open.watching) [[unlikely]]
    note_first(thread, call);
  thread.calls += 1;
  sums.calls += 1;
  sums.hardware_flop += call.hardware_flop;
  sums.model_flop += cost.model_flop;
  sums.bytes += call.bytes;
  thread.recorder->count(*thread.block, call.operator_id, call.type_id, cost);
}

}  // namespace mfu::observer
