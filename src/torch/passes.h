// Decides what a pass was for, by what follows it. If a backward uses its autograd nodes, it is
// training. If none does, it is generation if the next pass brings one more token; otherwise it is
// validation or a forward for its results (docs/formats/run.md, Phases). Until that is known, the
// pass waits in a table of the process, with its FLOPs, tokens and time.
//
// These functions are called where passes begin and end, never for each operator.
#pragma once

#include <cstdint>

#include "torch/count.h"
#include "torch/thread.h"

namespace mfu::observer {

// The current pass ends, because the next forward operator belongs to another one. `marked`: more
// than a change of grad mode says so.
void begin_pass(Thread& thread, Pass pass, const Call& call, bool marked) noexcept;
// Operators without grad interrupt a recorded pass. It goes on after them and includes them. False:
// it does not go on; what comes is another pass.
void suspend_pass(Thread& thread, const Call& call) noexcept;
bool resume_pass(Thread& thread, const Call& call) noexcept;
void close_pass(Thread& thread) noexcept;
// Called when nothing runs any more. Books the last passes of other threads if they decode, because
// a server ends while its threads still live, and an engine kills its workers. `all`: also passes
// that decode nothing.
void book_resting(bool all) noexcept;
// A table is looked up. This begins a pass or belongs to the current one.
void add_lookup(Thread& thread, const Lookup& lookup) noexcept;

// After a pass has made logits: does the next operator belong to another model, or to the next call
// of this one? The glue is asked once for each weight.
enum class Follows : std::uint8_t { same, model, call };
Follows leaves_model(Thread& thread, const Call& call) noexcept;
// A pass begins with what its model does before it looks up its table.
void begin_lead(Thread& thread, Pass pass) noexcept;

// A backward operator runs, so the pass whose node runs is training.
void find_consumed(Thread& thread) noexcept;

// A backward or an optimizer ended. What the thread counted since its pass closed is training.
void book_training(Thread& thread) noexcept;

void book_gap(std::uint64_t step_ns) noexcept;

// A step ended. Books what can be decided, and every thread's backward. `everything`: the process
// ends.
void settle_passes(Thread& thread, bool everything) noexcept;

// Tokens and samples of passes that wait, for a reader.
struct Waiting {
  std::uint64_t tokens = 0, samples = 0, token_rows = 0;
};
Waiting waiting(const Thread& thread) noexcept;

// The thread computes on another device than before.
void change_device(Thread& thread, std::int16_t device) noexcept;

// Called once for each new model. The Python glue answers.
using ModelSeen = void (*)(std::uint32_t model);
// Asks about a pass that has no weight: whether a module runs it.
inline constexpr std::uint32_t kThisPass = 0xFFFF;
void set_model_seen(ModelSeen seen) noexcept;
// Whether the outermost module that runs in this thread is that model (2), or only owns its table
// (1), which is a storage.
using OwnerAsked = int (*)(std::uint32_t model, std::uint64_t table);
void set_owner_asked(OwnerAsked asked) noexcept;
// Two numbers belong to one module. If no backward uses a pass, it is booked under the other
// number.
void join_models(std::uint32_t model, std::uint32_t other) noexcept;
// The model that replaced one that is gone has another class, so it gets its own number.
std::uint32_t split_model(std::uint32_t model) noexcept;
// Asked when the first weight comes again: does the module call that the pass is part of still run,
// as in a recurrence or with twins? Remembers the call for the next time.
using SameCall = int (*)();
enum class CallSeen : std::uint8_t { other, same, nobodys };  // nobodys: no module runs
void set_same_call(SameCall same) noexcept;
CallSeen see_call(const OpenPass& open) noexcept;
void remember_call() noexcept;
// Whether the operand of a batched product is a weight: that of an ensemble, stacked or under vmap.
bool is_weight(const Thread& thread, const Call& call) noexcept;
struct ModelMode {
  bool training = false;
  bool frozen = false;  // none of its parameters is trained
  bool named = false;   // a module's forward runs
  bool same = false;    // it is the module that had this number before
  bool unsure = false;  // only a table was seen; the module that it is part of may follow
};
void set_model_mode(std::uint32_t number, const ModelMode& told) noexcept;
// The first product of a pass that began with a table.
void watch_product(const OpenPass& open, const at::Tensor& weight) noexcept;

// Threads are registered, so that the end of a step finds what other threads did for its backward.
void register_thread(Thread& thread) noexcept;

// Recognises steps of an optimizer that torch.optim does not know: parameters changed, or lost
// their gradients, since a backward used them. This is checked when the model's next pass begins,
// and before the process ends.
void watch_updates(bool wanted) noexcept;
// whether the current backward accumulates, as far as is known
inline constinit std::atomic<bool> accumulates{true};
inline constinit std::atomic<bool> backward_seen{false};  // in this process
std::uint64_t passes_begun() noexcept;
bool was_updated() noexcept;
// There is an optimizer of torch.optim, so gradients without it are no steps.
void optimizer_made() noexcept;
bool has_optimizer() noexcept;
// An optimizer of torch.optim drops the gradients.
void gradients_dropped() noexcept;

void forget_passes(Thread& thread) noexcept;  // in a forked child

}  // namespace mfu::observer
