// What a pass was for, decided by what follows it: a backward that comes back to its autograd
// nodes makes it training; one that nothing comes back to is generation where the next pass brings
// one more token, else validation or a forward for its results (docs/formats/run.md, Phases). Until
// that is known a pass waits in a table of the process, with its own FLOPs, tokens and time.
//
// Called where passes begin and end, never for each operator.
#pragma once

#include <cstdint>

#include "torch/count.h"
#include "torch/thread.h"

namespace mfu::observer {

// The pass under way ends where the next forward operator is part of another one. `marked`: that is
// told by more than a change of grad mode.
void begin_pass(Thread& thread, Pass pass, const Call& call, bool marked) noexcept;
// A recorded pass is interrupted by operators without grad, and goes on after them, with them.
// False: it does not, what comes is another pass.
void suspend_pass(Thread& thread, const Call& call) noexcept;
bool resume_pass(Thread& thread, const Call& call) noexcept;
void close_pass(Thread& thread) noexcept;
// A table is looked up: it begins a pass, or belongs to the one under way.
void add_lookup(Thread& thread, const Lookup& lookup) noexcept;

// After a pass has made logits: whether what runs now is of another model. Asked of the glue, once
// for each weight.
bool leaves_model(Thread& thread, const Call& call) noexcept;

// A backward operator runs: the pass whose node runs is training.
void find_consumed(Thread& thread) noexcept;

// A backward or an optimizer ended: what the thread counted since its pass closed is training.
void book_training(Thread& thread) noexcept;

void book_gap(std::uint64_t step_ns) noexcept;

// A step ended: what can be decided is booked, and every thread's backward. `everything`: the
// process ends.
void settle_passes(Thread& thread, bool everything) noexcept;

// Tokens and samples of passes that wait, for a reader.
struct Waiting {
  std::uint64_t tokens = 0, samples = 0, token_rows = 0;
};
Waiting waiting(const Thread& thread) noexcept;

// Another device than the last operator's.
void change_device(Thread& thread, std::int16_t device) noexcept;

// Asked once for each model that was not seen before; told by the Python glue.
using ModelSeen = void (*)(std::uint32_t model);
// Asked of a pass that no weight tells: whether a module runs it.
inline constexpr std::uint32_t kThisPass = 0xFFFF;
void set_model_seen(ModelSeen seen) noexcept;
// Whether the outermost module that runs in this thread is that model, or owns its table (a
// storage).
using OwnerAsked = int (*)(std::uint32_t model, std::uint64_t table);
void set_owner_asked(OwnerAsked asked) noexcept;
// Two numbers are of one module: where nothing comes back to a pass, it is booked as the other's.
void join_models(std::uint32_t model, std::uint32_t other) noexcept;
// What came in the place of a model that is gone is of another class: it gets a number of its own.
std::uint32_t split_model(std::uint32_t model) noexcept;
// Asked where the first weight comes again: whether the call of the module that the pass is part of
// still runs, as in a recurrence or with twins. Remembers the call for the next time.
using SameCall = int (*)();
enum class CallSeen : std::uint8_t { other, same, nobodys };  // nobodys: no module runs
void set_same_call(SameCall same) noexcept;
CallSeen see_call(const OpenPass& open) noexcept;
void remember_call() noexcept;
// Whether the operand of a batched product is a weight: an ensemble's, stacked or under vmap.
bool is_weight(const Thread& thread, const Call& call) noexcept;
// `named`: a module's forward runs. `frozen`: none of its parameters is trained.
void set_model_mode(std::uint32_t model, bool training, bool frozen, bool named) noexcept;
// The first product of a pass that began with a table.
void watch_product(const OpenPass& open, const at::Tensor& weight) noexcept;

// Threads are known, so that a step's end finds what others did of its backward.
void register_thread(Thread& thread) noexcept;

// A step of an optimizer that torch.optim does not know: parameters changed, or lost their
// gradients, since a backward came back to them. Told where the model's next pass begins, and asked
// before the process ends.
void watch_updates(bool wanted) noexcept;
inline constinit std::atomic<bool> accumulates{true};  // the backward that runs, as far as is known
inline constinit std::atomic<bool> backward_seen{false};  // in this process
std::uint64_t passes_begun() noexcept;
bool was_updated() noexcept;
// There is an optimizer of torch.optim: gradients without it are no steps.
void optimizer_made() noexcept;
// An optimizer of torch.optim drops the gradients.
void gradients_dropped() noexcept;

void forget_passes(Thread& thread) noexcept;  // in a forked child

}  // namespace mfu::observer
