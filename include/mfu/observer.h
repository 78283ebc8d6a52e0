// The C interface of the observer inside a PyTorch process. It is a separate library,
// libmfu_torch.so, built for one version of libtorch. It counts the FLOPs of matmul-class operators
// at torch's dispatcher (key BackendSelect), recognises recomputation, and marks steps. It never
// raises, prints or blocks. mfu_observer_problem() says what it cannot do.
//
//   if (mfu_observer_start(NULL, NULL) != 0) puts(mfu_observer_problem());  // in private memory
//   /* … train … */
//   struct mfu_observer_totals totals;
//   mfu_observer_read_totals(&totals);
//
// Any thread may call any function. Returned strings stay valid as long as the library is loaded. A
// 128-bit count comes in two halves: `_high` << 64 | `_low`.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)
#define MFU_OBSERVER_ABI 7
// The MFU_OBSERVER_ABI that the library was built with. A caller checks that it equals its own.
int mfu_observer_abi(void);
// The version of torch that it was built for, such as "2.13.0".
const char* mfu_observer_torch(void);

// Registers the kernels, checks them on one known matmul and begins to count. Kernels are
// registered once and stay: torch cannot remove them safely while threads run. Switched off, they
// cost a few nanoseconds per operator. Counts go to a file in `region_folder`, or to private memory
// if that is NULL or empty. `step_marker` is the name of the program's own record_function range
// that ends a step, or NULL. Calls nest: counting ends after as many stops as starts. Returns 0 if
// it counts; otherwise it is off, and mfu_observer_problem() says why.
int mfu_observer_start(const char* region_folder, const char* step_marker);
void mfu_observer_stop(void);
int mfu_observer_active(void);
// Whether the calling thread counts now. 0 inside an operator that is counted itself.
int mfu_observer_counting(void);
const char* mfu_observer_problem(void);  // "" if there is none

struct mfu_observer_totals {
  uint64_t hardware_flop_low, hardware_flop_high;
  uint64_t model_flop_low, model_flop_high;
  uint64_t recomputed_flop_low, recomputed_flop_high;
  uint64_t calls;
  uint64_t uncounted_calls;
  uint64_t tokens;      // looked up in the embedding table with the most rows
  uint64_t token_rows;  // rows of that table; 0 if none was seen
  uint64_t samples;
  uint64_t steps;
};
// Counts of all threads of this process since the first start. Subtract two readings.
void mfu_observer_read_totals(struct mfu_observer_totals* totals);

struct mfu_observer_row {
  const char* name;    // "aten::addmm"
  const char* type;    // "bf16"
  const char* reason;  // why its FLOPs are not counted; "" if they are
  uint64_t calls;
  uint64_t hardware_flop_low, hardware_flop_high;
  uint64_t model_flop_low, model_flop_high;
  uint64_t recomputed_flop_low, recomputed_flop_high;
  uint64_t bytes;
};
// One row per operator and data type. Writes at most `capacity` and returns how many there are.
size_t mfu_observer_read_rows(struct mfu_observer_row* rows, size_t capacity);

// What passes were for (docs/formats/run.md, Phases), by phase and model. What follows a pass
// decides what it was for; with `settle`, passes that still wait are decided as if nothing
// followed. Writes at most `capacity` and returns how many there are.
struct mfu_observer_phase {
  const char* phase;  // "train", "validation", "prefill", "decode", "forward", "other"
  const char* model;  // name of its class; "" if not known
  uint64_t model_number;
  uint64_t passes, tokens, padded_tokens, samples, time_ns;
  uint64_t model_flop_low, model_flop_high, hardware_flop_low, hardware_flop_high;
  uint64_t weight_read_bytes, cache_read_bytes, cache_written_bytes;  // 0 if not known
};
size_t mfu_observer_read_phases(int settle, struct mfu_observer_phase* phases, size_t capacity);

// What the calling thread has counted so far. The 64-bit counts wrap around: subtract two readings.
struct mfu_observer_thread {
  uint64_t hardware_flop, model_flop, recomputed_flop, calls;
};
void mfu_observer_read_thread(struct mfu_observer_thread* thread);

// The same by operator: what the calling thread counted since the last call with the same `before`.
// `before` is an array of MFU_OBSERVER_THREAD_STATE numbers, one array per thread, all 0 at first.
// Ignore what the first call returns, because a thread may inherit the counters of one that ended.
// Writes at most `capacity` and returns how many operators there are.
#define MFU_OBSERVER_THREAD_STATE 194
struct mfu_observer_change {
  uint64_t operator_id, hardware_flop;
};
size_t mfu_observer_thread_changes(uint64_t* before, struct mfu_observer_change* changes,
                                   size_t capacity);
const char* mfu_observer_operator_name(uint32_t operator_id);  // "" if there is none

// Tell what the calling thread is doing; the Python package calls these. `change` is +1 at the
// beginning and -1 at the end.
void mfu_observer_pause(int change);         // compiling or autotuning: nothing counts
void mfu_observer_recompute(int change);     // activation checkpointing computes again
void mfu_observer_function(int change);      // a custom autograd Function runs its forward
void mfu_observer_create_graph(int change);  // a backward with create_graph, for the whole process
// A backward begins. `leaves` says whether it adds its gradients to the parameters.
void mfu_observer_accumulate(int leaves);
// These callbacks answer what only Python knows of modules, on the thread of a pass. 0xFFFF as
// `model` means the pass that has just begun. `seen`: which model is it? It calls name_model().
void mfu_observer_models(void (*seen)(uint32_t model));
// `same`: a model's first weight is used again. Is it still the same call of the module? 1: yes.
// 0: no, another one (the next question is about that one). 2: no module runs.
void mfu_observer_calls(int (*same)(void));
// Answers `seen`: the class (NULL keeps the name), and in `training` a sum of 1 (training mode), 2
// (all parameters are frozen), 4 (it had this number before), 8 (a table only: ask again later).
void mfu_observer_name_model(uint32_t model, const char* name, int training);
// `owns`: a pass has made its logits. Does what runs next belong to it? 2: yes, `model` is the
// outermost module that runs. 1: maybe: it owns the storage `table`, or no module runs. 0: no.
void mfu_observer_owners(int (*owns)(uint32_t model, uint64_t table));
// Says that two numbers belong to one module, such as an encoder and its decoder. Passes without
// grad are then booked under the other number.
void mfu_observer_join_models(uint32_t model, uint32_t other);
// Call it if a model got the number of a deleted model of another class. Returns a new number.
uint32_t mfu_observer_split_model(uint32_t model);
// `seen` is called once for each device but the CPU ("cuda:0"), on the thread that first used it.
// It answers with name_device() (a uuid) and with facts such as "device_name@cuda:0".
void mfu_observer_devices(void (*seen)(const char* device));
void mfu_observer_name_device(const char* device, const char* identity);

// Adds work that torch's dispatcher does not see.
void mfu_observer_add(const char* name, const char* type, uint64_t hardware_flop,
                      uint64_t model_flop, uint64_t recomputed_flop);
// Counts one call of a library that bypasses the dispatcher, just as the dispatcher's operators are
// counted: as part of the current pass, as recomputation if checkpointing calls it again, and not
// at all inside an operator that is counted itself. `leading` is the first dimension of its input
// (0: unknown), `device` is type << 8 | index (-1: unknown), `weight` the storage
// (c10::StorageImpl) of the model's operand (0: none).
void mfu_observer_count(uint32_t operator_id, uint32_t type_id, uint64_t hardware_flop,
                        uint64_t model_flop, int64_t leading, int64_t device, uint64_t weight);
// Waits up to a second for lengths of packed sequences that are on their way from a device. Calls
// whose lengths have arrived are counted, the others are listed as uncounted.
void mfu_observer_settle_lengths(void);
// Whether the thread may now use events of a device (type << 8 | index): not in a graph's capture.
int mfu_observer_may_ask(int64_t device);
// Whether the calling thread is recomputing now.
int mfu_observer_runs_again(void);
// From watch_writes(+1) to watch_writes(-1), writes of this thread's operators are watched. Then
// writer_of() says what wrote a storage (src/torch/writes.h), or for 0 whether memory was read that
// nobody had written. is_outside() says whether somebody other than torch allocated the memory.
void mfu_observer_watch_writes(int change);
int mfu_observer_writer_of(uint64_t storage);
int mfu_observer_is_outside(uint64_t storage);
// A compiled graph counts by its description: nothing counts while it runs, and leave_graph() adds
// its rows. With `opens`, operators that it calls by name count themselves: open_operator() returns
// 0 if it cannot see the calls of one ("ns::name.overload").
struct mfu_observer_graph_row {
  uint32_t operator_id, type_id;
  uint64_t calls, hardware_flop, model_flop, recomputed_flop;
  int64_t leading;  // first dimension of the graph's first counted operator
  int64_t device;   // type << 8 | index; -1 if not known
};
uint32_t mfu_observer_operator_id(const char* name);
uint32_t mfu_observer_type_id(const char* name);
int mfu_observer_open_operator(const char* name);
void mfu_observer_enter_graph(const struct mfu_observer_graph_row* rows, size_t count, int opens);
void mfu_observer_leave_graph(const struct mfu_observer_graph_row* rows, size_t count);
// Watches operators that libraries have defined meanwhile. Every counted operator does so too.
void mfu_observer_refresh(void);
// Adds a user's formula (add_formula in mfu/ops.h). `where` has lines such as "m=a0.shape[0]".
// Returns what is wrong with it, or "" if it is in force from now on.
const char* mfu_observer_formula(const char* name, const char* flop, const char* where,
                                 const char* type);
// The same with a function of the program. It is called after each call of the operator, on the
// same thread, and returns the FLOPs, or -1 if it does not know. One function serves all names;
// NULL ends that.
struct mfu_observer_argument;
typedef int64_t (*mfu_observer_formula_call)(const char* name,
                                             const struct mfu_observer_argument* arguments,
                                             size_t count,
                                             const struct mfu_observer_argument* result);
const char* mfu_observer_formula_by(const char* name, const char* type,
                                    mfu_observer_formula_call call);
// This thread captures a CUDA graph. What runs until the end of the capture counts when the graph
// is replayed. With `host_too`, operators on the CPU are part of it. capture_end() writes at most
// `capacity` rows.
void mfu_observer_capture_begin(int host_too);
size_t mfu_observer_capture_end(struct mfu_observer_graph_row* rows, size_t capacity);
void mfu_observer_replay(const struct mfu_observer_graph_row* rows, size_t count);
// Records work whose FLOPs are not known, and why.
void mfu_observer_add_uncounted(const char* name, const char* reason);
// Adds lookups in an embedding table that the dispatcher did not see: the table's storage (0: not
// known), its rows, the number of indices and their first two dimensions.
void mfu_observer_add_lookup(uint64_t table, uint64_t rows, uint64_t tokens, uint64_t first,
                             uint64_t second);

// An optimizer took a step, or a scaler made it skip one. `leads` says whether this ends the step.
// Returns what mfu_observer_stopping() does then.
int mfu_observer_optimizer_step(int leads);
// An optimizer exists. From now on gradients that the program computes itself (autograd.grad) do
// not count as an update by hand, so they end no step.
void mfu_observer_optimizer_made(void);
// Ends a step where the program says so. `index` is the program's number for it, or -1.
void mfu_observer_mark_step(int64_t index);
// Adds time that was spent saving state.
void mfu_observer_add_checkpoint_ns(uint64_t duration_ns);
// The calling thread saves state: +1 at the beginning, -1 at the end.
void mfu_observer_saving(int change);

// Passes on what the launcher asked for, such as "steps=3 after=5 ranks=0,1 stacks=1 stop=20"; each
// part is optional. Traces go to `directory`. Call it before the first step.
void mfu_observer_explain(const char* directory, const char* asked);
// `seen` is called when a window of profiled steps begins (1), is about to end (2), or ended (0).
void mfu_observer_windows(void (*seen)(int what));
// The program starts its own profiler. Ours ends and does not begin again.
void mfu_observer_other_profiler(void);
// Ends a window that this thread began. With `goodbye` it waits until the trace is written.
void mfu_observer_end_window(int goodbye);
int mfu_observer_stopping(void);  // 1 if the program was told to end after this step

// The program's own code has ended but its tensors still exist. If parameters were updated since
// the last step, this ends one.
void mfu_observer_last_step(void);
// The process ends now and runs no atexit handler.
void mfu_observer_goodbye(void);

// Records a fact about the process, such as "torch" "2.13.0". A "note" may be given several times.
void mfu_observer_fact(const char* key, const char* value);
void mfu_observer_set_rank(int32_t rank, int32_t world_size, int32_t local_rank);

// The cost of a call according to the operator table, for graphs that are counted without being
// run. Returns 0 if the call is counted, 1 if it is free or if what it calls is counted instead,
// and 2 if it has FLOPs that are not known; `reason` says why.
struct mfu_observer_argument {
  int kind;          // 0 absent, 1 tensor, 2 integers, 3 integer, 4 number, 5 boolean, 6 other
  const char* type;  // of a tensor: "torch.float32"
  const int64_t* integers;  // a tensor's sizes, a list's items, one integer or boolean
  size_t integers_count;
  double number;
};
struct mfu_observer_cost {
  uint64_t hardware_flop, model_flop;
  const char* name;  // as in the table, where overloads share a name
  const char* type;
  const char* reason;  // why it is not counted
};
int mfu_observer_cost_of(const char* name, const struct mfu_observer_argument* arguments,
                         size_t count, struct mfu_observer_cost* cost);
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
