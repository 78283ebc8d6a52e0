// The C ABI: start and stop, the self-check, readings.
#include "mfu/observer.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pthread.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "record/recorder.h"
#include "torch/boundaries.h"
#include "torch/capture.h"
#include "torch/count.h"
#include "torch/device_time.h"
#include "torch/devices.h"
#include "torch/host_time.h"
#include "torch/late_copy.h"
#include "torch/late_lengths.h"
#include "torch/mask_later.h"
#include "torch/models.h"
#include "torch/passes.h"
#include "torch/register.h"
#include "torch/window.h"
#include "torch/writes.h"

namespace mfu::observer {
namespace {

struct Process {
  std::mutex mutex;
  int starts = 0;
  bool registered = false;
  std::string problem;
  std::set<std::string, std::less<>> names;  // names that read_rows returns
};

Process& process() {
  static Process* instance = new Process;
  return *instance;
}

const char* keep(const std::string& name) {
  return process().names.insert(name).first->c_str();
}

std::uint64_t sum_of(const Thread& thread, std::uint64_t Sums::* member) {
  std::uint64_t sum = 0;
  for (const Sums& each : thread.sums) sum += each.*member;
  return sum;
}

// One known matmul must be seen exactly once, with 2·3·5·7 FLOPs. The mode or transform that the
// caller is in is suspended.
std::string check_self() {
  c10::impl::ExcludeDispatchKeyGuard plain(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                           c10::DispatchKey::PythonDispatcher, c10::DispatchKey::Functionalize,
                           c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                           c10::DispatchKey::FuncTorchDynamicLayerBackMode}));
  at::TensorOptions options = at::TensorOptions().device(at::kCPU).dtype(at::kFloat);
  at::Tensor a = at::ones({3, 5}, options), b = at::ones({5, 7}, options);
  Thread& thread = this_thread;
  std::uint32_t quiet = thread.quiet;
  std::uint64_t flop = sum_of(thread, &Sums::hardware_flop), calls = thread.calls;
  std::array<Sums, kRegionTypes> before = thread.sums;
  thread.quiet = 0;
  thread.aside = Thread::Aside::checking;
  at::Tensor c = at::mm(a, b);
  thread.aside = Thread::Aside::no;
  thread.quiet = quiet;
  flop = sum_of(thread, &Sums::hardware_flop) - flop;
  calls = thread.calls - calls;
  thread.calls -= calls;
  thread.sums = thread.booked = before;
  if (calls == 1 && flop == 210 && c.numel() == 21) return {};
  return "the self-check failed: one known matmul was seen " + std::to_string(calls) +
         " times with " + std::to_string(flop) + " FLOP instead of once with 210";
}

void after_fork() {
  new (&process().mutex) std::mutex;
  reset_locks();
  forget_ranges();
  forget_window();
  forget_capture();
  forget_passes(this_thread);
  this_thread.pass = Pass::none;
}

// Tells how much of the loader's time was its own work, because work and waiting need different
// advice.
void tell_loading() {
  HostUse use = loading_use();
  if (use.loading_ns == 0) return;
  Recorder::process().fact("loader_ns", std::to_string(use.loading_ns));
  Recorder::process().fact("loader_cpu_ns", std::to_string(use.loading_cpu_ns));
}

void at_end() {
  end_window(true);
  settle_passes(this_thread, true);
  tell_loading();
  Recorder::process().stop();
}

std::string begin(const char* folder, const char* step_marker) {
  Recorder::process().start({.folder = folder != nullptr ? folder : ""});
  register_kernels();
  watch_ranges(step_marker != nullptr ? step_marker : "");
  pthread_atfork(nullptr, nullptr, after_fork);
  std::atexit(at_end);
  mode.fetch_or(kCounting);
  std::string problem = check_self();
  mode.fetch_and(~kCounting);
  Recorder::process().fact("torch", TORCH_VERSION);
  return problem;
}

// In a C++ program under LD_PRELOAD nobody calls start(). Its steps are marked by
// mfu_observer_mark_step() or by a range of its own, because torch's C++ optimizers name none.
__attribute__((constructor)) void start_preloaded() {
  if (std::getenv("MFU_OBSERVER_PRELOADED") == nullptr) return;
  mfu_observer_explain(std::getenv("MFU_RUN_DIR"), std::getenv("MFU_EXPLAIN"));
  mfu_observer_start(std::getenv("MFU_REGION_DIR"), std::getenv("MFU_STEP_MARKER"));
}

void write_halves(FlopCount count, std::uint64_t& low, std::uint64_t& high) {
  low = count.low();
  high = count.high();
}

}  // namespace
}  // namespace mfu::observer

using namespace mfu::observer;
using mfu::FlopCount;
using mfu::Recorder;

int mfu_observer_abi(void) {
  return MFU_OBSERVER_ABI;
}
const char* mfu_observer_torch(void) {
  return TORCH_VERSION;
}

int mfu_observer_start(const char* region_folder, const char* step_marker) {
  std::lock_guard lock(process().mutex);
  if (!process().registered) {
    process().registered = true;
    try {
      process().problem = begin(region_folder, step_marker);
    } catch (const std::exception& error) {
      process().problem = std::string("the kernels were not registered: ") + error.what();
    }
    if (!process().problem.empty())
      Recorder::process().fact("note", "observer off: " + process().problem);
  }
  if (!process().problem.empty()) return 1;
  if (process().starts++ == 0) mode.fetch_or(kCounting);
  return 0;
}

void mfu_observer_stop(void) {
  std::lock_guard lock(process().mutex);
  if (process().starts == 0) return;
  if (--process().starts != 0) return;
  end_pass(this_thread);
  this_thread.pass = Pass::none;
  mode.fetch_and(~kCounting);
}

int mfu_observer_active(void) {
  return (mode.load() & kCounting) != 0;
}
int mfu_observer_counting(void) {
  return (mode.load(std::memory_order_relaxed) & kCounting) != 0 && this_thread.quiet == 0;
}
const char* mfu_observer_problem(void) {
  return process().problem.c_str();
}

void mfu_observer_read_totals(struct mfu_observer_totals* totals) {
  *totals = {};
  FlopCount hardware, model, recomputed;
  for (const Recorder::Total& each : Recorder::process().totals()) {
    hardware = hardware + each.hardware_flop;
    model = model + each.model_flop;
    recomputed = recomputed + each.recomputed_flop;
    (each.reason.empty() ? totals->calls : totals->uncounted_calls) += each.calls;
  }
  write_halves(hardware, totals->hardware_flop_low, totals->hardware_flop_high);
  write_halves(model, totals->model_flop_low, totals->model_flop_high);
  write_halves(recomputed, totals->recomputed_flop_low, totals->recomputed_flop_high);
  totals->steps = steps();
  if (const mfu::Region* region = Recorder::process().region()) {
    Waiting more = waiting(this_thread);
    totals->tokens = region->header.tokens.load() + more.tokens;
    totals->token_rows = std::max(region->header.token_rows.load(), more.token_rows);
    totals->samples = region->header.samples.load() + more.samples;
  }
}

size_t mfu_observer_read_rows(struct mfu_observer_row* rows, size_t capacity) {
  std::vector<Recorder::Total> all = Recorder::process().totals();
  std::lock_guard lock(process().mutex);
  for (size_t i = 0; i < all.size() && i < capacity; ++i) {
    const Recorder::Total& each = all[i];
    rows[i] = {.name = keep(each.name), .type = keep(each.type), .reason = keep(each.reason)};
    rows[i].calls = each.calls;
    write_halves(each.hardware_flop, rows[i].hardware_flop_low, rows[i].hardware_flop_high);
    write_halves(each.model_flop, rows[i].model_flop_low, rows[i].model_flop_high);
    write_halves(each.recomputed_flop, rows[i].recomputed_flop_low, rows[i].recomputed_flop_high);
    rows[i].bytes = each.bytes;
  }
  return all.size();
}

void mfu_observer_read_thread(struct mfu_observer_thread* thread) {
  const Thread& mine = this_thread;
  *thread = {sum_of(mine, &Sums::hardware_flop), sum_of(mine, &Sums::model_flop),
             sum_of(mine, &Sums::recomputed_flop), mine.calls};
}

size_t mfu_observer_thread_changes(uint64_t* before, struct mfu_observer_change* changes,
                                   size_t capacity) {
  // The last two say whose counters the others are, because those of a forked child start anew.
  static_assert(mfu::kRegionCells + 2 == MFU_OBSERVER_THREAD_STATE);
  const mfu::RegionBlock* block = Recorder::process().lease_block();
  const mfu::Region* region = Recorder::process().region();
  if (block == nullptr || region == nullptr) return 0;
  std::uint64_t owner[2] = {reinterpret_cast<std::uintptr_t>(block), region->header.pid};
  if (std::memcmp(before + mfu::kRegionCells, owner, sizeof owner) != 0) {
    std::fill_n(before, mfu::kRegionCells, 0);
    std::memcpy(before + mfu::kRegionCells, owner, sizeof owner);
  }
  size_t found = 0;
  for (size_t i = 0; i < mfu::kRegionCells; ++i) {
    std::uint32_t key = region->keys[i].load(std::memory_order_acquire);
    if (key == 0) continue;
    std::uint64_t now = block->cells[i].hardware_low.load(std::memory_order_relaxed);
    if (now == before[i]) continue;
    if (found < capacity) changes[found] = {(key - 1) >> 8, now - before[i]};
    before[i] = now;
    ++found;
  }
  return found;
}

const char* mfu_observer_operator_name(uint32_t id) {
  const mfu::Region* region = Recorder::process().region();
  if (region == nullptr || id >= mfu::kRegionOperators) return "";
  return region->operators[id].name;
}

void mfu_observer_pause(int change) {
  this_thread.quiet += static_cast<std::uint32_t>(change);
}
void mfu_observer_recompute(int change) {
  this_thread.recomputing += static_cast<std::uint32_t>(change);
}
void mfu_observer_function(int change) {
  Thread& thread = this_thread;
  if (thread.recorder == nullptr) bind_thread(thread);
  // Inside a Function that autograd keeps, everything is kept. Inside one that it does not keep,
  // only what it calls with grad mode on again is kept.
  if (change > 0) {
    bool kept = thread.recorded != 0 || thread.autograd->get_grad_mode();
    ++(kept ? thread.recorded : thread.unrecorded);
  } else if (thread.unrecorded != 0) {
    --thread.unrecorded;
  } else if (thread.recorded != 0) {
    --thread.recorded;
  }
}
void mfu_observer_accumulate(int leaves) {
  accumulates.store(leaves != 0, std::memory_order_relaxed);
  backward_seen.store(true, std::memory_order_relaxed);
  begin_backward();
}
void mfu_observer_models(void (*seen)(uint32_t model)) {
  set_model_seen(seen);
}
void mfu_observer_calls(int (*same)(void)) {
  set_same_call(same);
}
void mfu_observer_name_model(uint32_t model, const char* name, int training) {
  if (name != nullptr && model != kThisPass) Recorder::process().name_model(model, name);
  set_model_mode(model, {.training = (training & 1) != 0,
                         .frozen = (training & 2) != 0,
                         .named = name != nullptr,
                         .same = (training & 4) != 0,
                         .unsure = (training & 8) != 0});
}
void mfu_observer_owners(int (*owns)(uint32_t model, uint64_t table)) {
  set_owner_asked(owns);
}
void mfu_observer_join_models(uint32_t model, uint32_t other) {
  join_models(model, other);
}
uint32_t mfu_observer_split_model(uint32_t model) {
  return split_model(model);
}
void mfu_observer_devices(void (*seen)(const char* device)) {
  set_device_seen(seen);
}
void mfu_observer_name_device(const char* device, const char* identity) {
  Recorder::process().device_id(device, identity);
}
void mfu_observer_create_graph(int change) {
  change_create_graph(change);
}

void mfu_observer_add(const char* name, const char* type, uint64_t hardware_flop,
                      uint64_t model_flop, uint64_t recomputed_flop) {
  if ((mode.load(std::memory_order_relaxed) & kCounting) == 0) return;
  Recorder& recorder = Recorder::process();
  unsigned type_number = recorder.type_id(type);
  Sums& sums = this_thread.sums[type_number % mfu::kRegionTypes];
  sums.calls += 1;
  sums.hardware_flop += hardware_flop;
  sums.model_flop += model_flop;
  sums.recomputed_flop += recomputed_flop;
  recorder.count(recorder.operator_id(name), type_number,
                 {.hardware_flop = hardware_flop,
                  .model_flop = model_flop,
                  .recomputed_flop = recomputed_flop});
}

void mfu_observer_count(uint32_t operator_id, uint32_t type_id, uint64_t hardware_flop,
                        uint64_t model_flop, int64_t leading, int64_t device, uint64_t weight) {
  Thread& thread = this_thread;
  if (thread.quiet != 0 || (mode.load(std::memory_order_relaxed) & kCounting) == 0) return;
  join_capture(thread);
  count_call(thread, {.operator_id = operator_id,
                      .type_id = type_id,
                      .hardware_flop = hardware_flop,
                      .model_flop = model_flop,
                      .leading = leading,
                      .device = static_cast<std::int16_t>(device),
                      // NOLINTNEXTLINE(performance-no-int-to-ptr): never followed
                      .weight = reinterpret_cast<const void*>(weight)});
}

void mfu_observer_settle_lengths(void) {
  finish_lengths();
}

int mfu_observer_may_ask(int64_t device) {
  return may_ask(static_cast<std::int16_t>(device)) ? 1 : 0;
}

int mfu_observer_runs_again(void) {
  Thread& thread = this_thread;
  if (thread.recomputing != 0) return 1;
  if (torch::autograd::get_current_graph_task_id() == -1) return 0;
  if (thread.recorder == nullptr) bind_thread(thread);
  return thread.autograd->get_grad_mode() && runs_again() ? 1 : 0;
}

void mfu_observer_watch_writes(int change) {
  watch_writes(change);
}
int mfu_observer_writer_of(uint64_t storage) {
  return storage == 0 ? int{read_unwritten()} : static_cast<int>(writer_of(storage));
}

int mfu_observer_is_outside(uint64_t storage) {
  return is_outside(storage) ? 1 : 0;
}

uint32_t mfu_observer_operator_id(const char* name) {
  return operator_id(name);
}
uint32_t mfu_observer_type_id(const char* name) {
  return type_id(name);
}

void mfu_observer_refresh(void) {
  if ((mode.load(std::memory_order_relaxed) & kPending) != 0) register_pending();
}
void mfu_observer_add_uncounted(const char* name, const char* reason) {
  if ((mode.load(std::memory_order_relaxed) & kCounting) == 0) return;
  if (this_thread.quiet == 0) count_unknown(this_thread, operator_id(name, reason));
}

void mfu_observer_add_lookup(uint64_t table, uint64_t rows, uint64_t tokens, uint64_t first,
                             uint64_t second) {
  if ((mode.load(std::memory_order_relaxed) & kCounting) == 0) return;
  Thread& thread = this_thread;
  std::uint32_t quiet = thread.quiet;
  thread.quiet = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): never followed
  const void* known = table != 0 ? reinterpret_cast<const void*>(table) : known_by_rows(rows);
  count_lookup(thread, {.table = known, .rows = rows, .tokens = tokens, .sizes = {first, second}});
  thread.quiet = quiet;
}

int mfu_observer_optimizer_step(int leads) {
  optimizer_stepped(leads != 0);
  return mfu_observer_stopping();
}
void mfu_observer_optimizer_made(void) {
  optimizer_made();
}
void mfu_observer_mark_step(int64_t index) {
  mark_step(index);
}
void mfu_observer_add_checkpoint_ns(uint64_t duration_ns) {
  Recorder::process().add_phase(mfu::RegionPhase::checkpoint, duration_ns);
}
void mfu_observer_saving(int change) {
  if (change > 0) {
    begin_saving();
  } else {
    end_saving();
  }
}
void mfu_observer_last_step(void) {
  finish_device_steps();
  finish_lengths();
  finish_masks();
  if ((mode.load(std::memory_order_relaxed) & kCounting) != 0) finish_updates(was_updated());
}
void mfu_observer_explain(const char* directory, const char* asked) {
  ask_window(directory != nullptr ? directory : "", asked != nullptr ? asked : "");
}
void mfu_observer_windows(void (*seen)(int what)) {
  set_window_seen(seen);
}
void mfu_observer_other_profiler(void) {
  other_profiler();
}
void mfu_observer_end_window(int goodbye) {
  end_window(goodbye != 0);
}
int mfu_observer_stopping(void) {
  return is_stopping() ? 1 : 0;
}
void mfu_observer_goodbye(void) {
  at_end();
}
void mfu_observer_fact(const char* key, const char* value) {
  Recorder::process().fact(key, value);
}
void mfu_observer_set_rank(int32_t rank, int32_t world_size, int32_t local_rank) {
  Recorder::process().set_rank(rank, world_size, local_rank);
}
