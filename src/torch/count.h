// Takes one finished operator to the counters: which pass it belongs to, whether checkpointing ran
// it again, how many samples and tokens went in. All of this runs inside an operator of the
// training loop, so nothing throws, locks or allocates after a thread's first call. What runs for
// each call is inline and costs a few dozen instructions. Rare work is behind a function call.
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

// One call of an operator that is to be counted.
struct Call {
  unsigned operator_id = 0, type_id = 0;
  std::uint64_t hardware_flop = 0;
  std::uint64_t model_flop = 0;
  std::uint64_t bytes = 0;
  std::int64_t leading = 0;  // first dimension of its input: samples, if nothing better is known
  std::int16_t device = -1;  // type << 8 | index; -1: as the operator before
  // The operand that the model multiplies by, if any. Its next pass begins with the same one.
  const void* weight = nullptr;           // its storage
  std::int64_t offset = 0;                // offset in that storage
  const at::Tensor* parameter = nullptr;  // the operand itself, or a view of it
  std::int64_t rows = 0;                  // of each product in a batch of them
  bool batched = false;                   // then the operand is a weight only if a module owns it
  bool small = false;  // a product of vectors; without grad it begins no pass (spectral norm)
};
inline void count_call(Thread& thread, const Call& call) noexcept;

// The same for a compiled graph: many calls at once. The graph itself runs some of them again.
struct Many {
  std::uint64_t calls = 1;
  std::uint64_t recomputed_flop = 0;
};
void count_graph(Thread& thread, const Call& call, const Many& many) noexcept;

// Lookups in an embedding table.
void count_lookup(Thread& thread, const Lookup& lookup) noexcept;

// Counts an operator whose FLOPs are not known. `operator_id` carries the reason.
void count_unknown(Thread& thread, unsigned operator_id) noexcept;

// Numbers of names. They are the same in every process of a run.
unsigned operator_id(std::string_view name, std::string_view reason = {});
unsigned type_id(std::string_view name);

// The Python glue tells that a backward with create_graph begins (+1) or ends (-1).
void change_create_graph(int change) noexcept;

// What attention or a recurrent layer tells about the current pass.
struct Attended {
  std::uint64_t batch = 0, queries = 0, keys = 0;
};
void note_attention(Thread& thread, const Attended& attended) noexcept;
// A batched product. Two of them in a row may be attention. `type` is the recorder's number.
struct Batched {
  std::uint64_t batch = 0, queries = 0, keys = 0, inner = 0, element_bytes = 0, type = 0;
  const at::Tensor* right = nullptr;
};
void note_batched(Thread& thread, const Batched& product) noexcept;

// A batch was fetched or a step ended, so the next forward operator begins a new pass.
void begin_epoch() noexcept;
// A batch is being fetched, so the pass of this thread is over.
void end_pass(Thread& thread) noexcept;

std::uint64_t now_ns() noexcept;  // CLOCK_MONOTONIC

// Increased at each backward, batch and step. The next forward pass is then a new one.
inline constinit std::atomic<std::uint64_t> epoch{1};
// the epoch that the last backward began
inline constinit std::atomic<std::uint64_t> backward_epoch{0};
void begin_backward() noexcept;

void bind_thread(Thread& thread) noexcept;
void change_pass(Thread& thread, Pass pass, int task, const Call& call) noexcept;
void note_first(Thread& thread, const Call& call) noexcept;
void note_device(Thread& thread, std::int16_t device) noexcept;
void note_backward(Thread& thread) noexcept;
inline constinit std::atomic<std::uint32_t> waiting_passes{0};  // a backward may still use them
// True inside a backward with grad mode on.
bool runs_again() noexcept;

// True if the call is not counted here, because it was part of the self-check or of a captured
// graph. A graph counts when it is replayed (capture.h).
bool put_aside(Thread& thread, const Call& call, std::uint64_t calls) noexcept;

// Finds the pass that this operator belongs to. True if checkpointing runs it again.
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
