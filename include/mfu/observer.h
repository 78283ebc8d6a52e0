// The observer inside a PyTorch process, as a C ABI: libmfu_torch.so, a library of its own, linked
// against libtorch and built for one version of it. It counts the FLOPs of matmul-class operators
// where the dispatcher passes them (BackendSelect), tells recomputation apart, and marks steps. It
// never raises, prints or blocks; what it cannot do it says in words.
//
//   if (mfu_observer_start(NULL, NULL) != 0) puts(mfu_observer_problem());  // in private memory
//   /* … train … */
//   struct mfu_observer_totals totals;
//   mfu_observer_read_totals(&totals);
//
// Every function may be called from any thread. Strings that come back live as long as the library.
// A 128-bit count is two halves, `_high` << 64 | `_low`.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define MFU_OBSERVER_ABI 3

// MFU_OBSERVER_ABI of the library; whoever loads it checks that it is theirs.
int mfu_observer_abi(void);
// The torch it was built for, "2.13.0".
const char* mfu_observer_torch(void);

// Registers the kernels (once, for good: taking them away under running threads is not safe in
// torch; switched off they cost a few nanoseconds an operator), counts one known matmul and begins
// to count. `region_folder` NULL or empty: in private memory. `step_marker`: the name of the
// program's own record_function range that ends a step, or NULL. Calls nest: counting goes on until
// as many stops. 0: counting. Else it is off, and mfu_observer_problem() says why.
int mfu_observer_start(const char* region_folder, const char* step_marker);
void mfu_observer_stop(void);
int mfu_observer_active(void);
// The same for what the calling thread runs now: 0 inside an operator that is counted already.
int mfu_observer_counting(void);
const char* mfu_observer_problem(void);  // "" where there is none

struct mfu_observer_totals {
  uint64_t hardware_flop_low, hardware_flop_high;
  uint64_t model_flop_low, model_flop_high;
  uint64_t recomputed_flop_low, recomputed_flop_high;
  uint64_t calls;
  uint64_t uncounted_calls;
  uint64_t tokens;      // looked up in the embedding with the most rows
  uint64_t token_rows;  // of that table; 0: none was seen
  uint64_t samples;
  uint64_t steps;
};
// All threads of this process since the first start: for differences.
void mfu_observer_read_totals(struct mfu_observer_totals* totals);

struct mfu_observer_row {
  const char* name;    // "aten::addmm"
  const char* type;    // "bf16"
  const char* reason;  // "": counted; else why its FLOPs are not
  uint64_t calls;
  uint64_t hardware_flop_low, hardware_flop_high;
  uint64_t model_flop_low, model_flop_high;
  uint64_t recomputed_flop_low, recomputed_flop_high;
  uint64_t bytes;
};
// By operator and data type. Returns how many there are; writes at most `capacity`.
size_t mfu_observer_read_rows(struct mfu_observer_row* rows, size_t capacity);

// What passes were for (docs/formats/run.md, Phases), by phase and model. `settle`: passes that
// wait for what follows them are decided as if nothing followed. Returns how many there are; writes
// at most `capacity`.
struct mfu_observer_phase {
  const char* phase;  // "train", "validation", "prefill", "decode", "forward", "other"
  const char* model;  // of its class; "": not known
  uint64_t model_number;
  uint64_t passes, tokens, padded_tokens, samples, time_ns;
  uint64_t model_flop_low, model_flop_high, hardware_flop_low, hardware_flop_high;
};
size_t mfu_observer_read_phases(int settle, struct mfu_observer_phase* phases, size_t capacity);

// What the calling thread counted so far (64 bits, wrapping): for differences around a call.
struct mfu_observer_thread {
  uint64_t hardware_flop, model_flop, recomputed_flop, calls;
};
void mfu_observer_read_thread(struct mfu_observer_thread* thread);

// The same by operator: what the calling thread counted since the call before with the same
// `before` (MFU_OBSERVER_THREAD_STATE numbers, 0 at first, and the thread's own). A thread's
// counters may have been another's: what its first call tells is to be left aside. Returns how many
// operators there are; writes at most `capacity`.
#define MFU_OBSERVER_THREAD_STATE 194
struct mfu_observer_change {
  uint64_t operator_id, hardware_flop;
};
size_t mfu_observer_thread_changes(uint64_t* before, struct mfu_observer_change* changes,
                                   size_t capacity);
const char* mfu_observer_operator_name(uint32_t operator_id);  // "" where there is none

// What the calling thread is doing, set by who knows (the Python glue); `change` is +1 or -1.
void mfu_observer_pause(int change);         // compiling, autotuning: nothing counts
void mfu_observer_recompute(int change);     // activation checkpointing runs again
void mfu_observer_function(int change);      // a custom autograd Function runs its forward
void mfu_observer_create_graph(int change);  // a backward with create_graph; of the process
// A backward begins; whether it leaves its gradients with the parameters.
void mfu_observer_accumulate(int leaves);
// Asked once for each model that passes are seen of, on the thread that runs it.
void mfu_observer_models(void (*seen)(uint32_t model));
// The answer: its class (NULL: as before) and whether it is in training mode now.
void mfu_observer_name_model(uint32_t model, const char* name, int training);
// Asked once for each device but the CPU that operators ran on ("cuda:0"), on the thread that ran
// them. The answer is its identity (a uuid), and facts "device_name@cuda:0" and the like.
void mfu_observer_devices(void (*seen)(const char* device));
void mfu_observer_name_device(const char* device, const char* identity);

// Adds what ran past the dispatcher.
void mfu_observer_add(const char* name, const char* type, uint64_t hardware_flop,
                      uint64_t model_flop, uint64_t recomputed_flop);
// Counts one call of a library that computes past the dispatcher, as an operator of the dispatcher
// would be: in the pass under way, as recomputation where checkpointing runs it again, not at all
// inside an operator that is counted already. `leading`: first dimension of its input, 0: unknown;
// `device`: type << 8 | index, -1: not known; `weight`: the storage (c10::StorageImpl) of the
// operand that a model multiplies by, 0: none.
void mfu_observer_count(uint32_t operator_id, uint32_t type_id, uint64_t hardware_flop,
                        uint64_t model_flop, int64_t leading, int64_t device, uint64_t weight);
// Whether what the calling thread runs now is recomputation.
int mfu_observer_runs_again(void);
// A compiled graph that ran while this thread was paused: what it came to, once, and the pause
// ends. Numbers of names stay the same for the life of the process.
struct mfu_observer_graph_row {
  uint32_t operator_id, type_id;
  uint64_t calls, hardware_flop, model_flop, recomputed_flop;
  int64_t leading;  // first dimension of the graph's first counted operator
  int64_t device;   // type << 8 | index; -1: not known
};
uint32_t mfu_observer_operator_id(const char* name);
uint32_t mfu_observer_type_id(const char* name);
void mfu_observer_leave_graph(const struct mfu_observer_graph_row* rows, size_t count);
// Operators that libraries defined since are watched from now on; a counted operator does it too.
void mfu_observer_refresh(void);
// A formula of the user's (add_formula in mfu/ops.h); `where`: lines "m=a0.shape[0]". Returns what
// is wrong with it, "" where it holds from now on.
const char* mfu_observer_formula(const char* name, const char* flop, const char* where,
                                 const char* type);
// The same by a function of the program's, for every name that is given so: it is asked after each
// call, on its thread, and returns FLOPs, or -1 where it cannot say. NULL: it is asked no more.
struct mfu_observer_argument;
typedef int64_t (*mfu_observer_formula_call)(const char* name,
                                             const struct mfu_observer_argument* arguments,
                                             size_t count,
                                             const struct mfu_observer_argument* result);
const char* mfu_observer_formula_by(const char* name, const char* type,
                                    mfu_observer_formula_call call);
// A CUDA graph is captured by this thread: what runs until the end counts when it is replayed.
// `host_too`: operators on the CPU are part of it. The end returns how many rows there are and
// writes at most `capacity`.
void mfu_observer_capture_begin(int host_too);
size_t mfu_observer_capture_end(struct mfu_observer_graph_row* rows, size_t capacity);
void mfu_observer_replay(const struct mfu_observer_graph_row* rows, size_t count);
// Names work whose FLOPs are not known.
void mfu_observer_add_uncounted(const char* name, const char* reason);
// Lookups in an embedding table that the dispatcher did not see: its storage (0: not known), its
// rows, the indices and their first two dimensions.
void mfu_observer_add_lookup(uint64_t table, uint64_t rows, uint64_t tokens, uint64_t first,
                             uint64_t second);

// An optimizer stepped, or would have (a scaler that skips). `leads`: it ends the step.
void mfu_observer_optimizer_step(int leads);
// An optimizer exists: gradients that the program asks for itself make no step.
void mfu_observer_optimizer_made(void);
// Ends a step by the program's own mark; `index`: its number, or -1.
void mfu_observer_mark_step(int64_t index);
// Time spent saving state.
void mfu_observer_add_checkpoint_ns(uint64_t duration_ns);

// What the launcher asked for: "steps=3 after=5 ranks=0,1 stacks=1 stop=20", each where it was
// asked; traces go to `directory`. Before the first step.
void mfu_observer_explain(const char* directory, const char* asked);
// Called when a window of profiled steps begins (1), is about to end (2), has ended (0).
void mfu_observer_windows(void (*seen)(int what));
// The program begins a profiler of its own: ours ends, and never begins again.
void mfu_observer_other_profiler(void);
// Ends a window that this thread began; `goodbye`: and waits until its trace is written.
void mfu_observer_end_window(int goodbye);
int mfu_observer_stopping(void);  // 1: the program was told to end after this step

// The program's own code is over, its tensors are not: a last update of parameters ends a step.
void mfu_observer_last_step(void);
// The process ends now and runs no atexit handler.
void mfu_observer_goodbye(void);

// What a reader wants to know of the process: "torch" "2.13.0"; "note" may come several times.
void mfu_observer_fact(const char* key, const char* value);
void mfu_observer_set_rank(int32_t rank, int32_t world_size, int32_t local_rank);

// What the operator table makes of a call, for graphs that are counted without being run. 0: it is
// counted; 1: free, or what it calls is counted instead; 2: it carries FLOPs and `reason` says why
// they are not known.
struct mfu_observer_argument {
  int kind;          // 0 absent, 1 tensor, 2 integers, 3 integer, 4 number, 5 boolean, 6 other
  const char* type;  // of a tensor: "torch.float32"
  const int64_t* integers;  // a tensor's sizes, a list's items, one integer or boolean
  size_t integers_count;
  double number;
};
struct mfu_observer_cost {
  uint64_t hardware_flop, model_flop;
  const char* name;  // of the table: overloads share it
  const char* type;
  const char* reason;  // why it is not counted
};
int mfu_observer_cost_of(const char* name, const struct mfu_observer_argument* arguments,
                         size_t count, struct mfu_observer_cost* cost);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
