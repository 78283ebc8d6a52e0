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
#include "torch/count.h"
#include "torch/register.h"

namespace mfu::observer {
namespace {

struct Process {
  std::mutex mutex;
  int starts = 0;
  bool registered = false;
  std::string problem;
  std::set<std::string, std::less<>> names;  // what read_rows hands out
};

Process& process() {
  static Process* instance = new Process;
  return *instance;
}

const char* keep(const std::string& name) {
  return process().names.insert(name).first->c_str();
}

// One known matmul must be seen once and come to 2·3·5·7. Whatever mode or transform the caller is
// in is left aside.
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
  std::uint64_t flop = thread.hardware_flop, calls = thread.calls;
  thread.quiet = 0;
  thread.checking = true;
  at::Tensor c = at::mm(a, b);
  thread.checking = false;
  thread.quiet = quiet;
  flop = thread.hardware_flop - flop;
  calls = thread.calls - calls;
  thread.hardware_flop -= flop;
  thread.calls -= calls;
  if (calls == 1 && flop == 210 && c.numel() == 21) return {};
  return "the self-check failed: one known matmul was seen " + std::to_string(calls) +
         " times with " + std::to_string(flop) + " FLOP instead of once with 210";
}

void after_fork() {
  new (&process().mutex) std::mutex;
  reset_locks();
  forget_ranges();
  this_thread.pass = Pass::none;
  this_thread.forward_only_start_ns = 0;
}

void at_end() {
  end_pass(this_thread);
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

// A C++ program under LD_PRELOAD has nobody to call start(). Its steps are marked by
// mfu_observer_mark_step() or by a range of its own, since torch's C++ optimizers name none.
__attribute__((constructor)) void start_preloaded() {
  if (std::getenv("MFU_OBSERVER_PRELOADED") == nullptr) return;
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
  mode.fetch_and(~kCounting);
}

int mfu_observer_active(void) {
  return (mode.load() & kCounting) != 0;
}
const char* mfu_observer_problem(void) {
  return process().problem.c_str();
}

void mfu_observer_read_totals(struct mfu_observer_totals* totals) {
  *totals = {};
  book_samples(this_thread);
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
    totals->tokens = region->header.tokens.load();
    totals->token_rows = region->header.token_rows.load();
    totals->samples = region->header.samples.load();
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
  *thread = {mine.hardware_flop, mine.model_flop, mine.recomputed_flop, mine.calls};
}

size_t mfu_observer_thread_changes(uint64_t* before, struct mfu_observer_change* changes,
                                   size_t capacity) {
  // The last two say whose counters the others are: a forked child's begin anew.
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
void mfu_observer_checkpointed(int change) {
  this_thread.checkpointed += static_cast<std::uint32_t>(change);
}
void mfu_observer_create_graph(int change) {
  change_create_graph(change);
}

void mfu_observer_add(const char* name, const char* type, uint64_t hardware_flop,
                      uint64_t model_flop, uint64_t recomputed_flop) {
  if ((mode.load(std::memory_order_relaxed) & kCounting) == 0) return;
  Recorder& recorder = Recorder::process();
  Thread& thread = this_thread;
  thread.hardware_flop += hardware_flop;
  thread.model_flop += model_flop;
  thread.recomputed_flop += recomputed_flop;
  recorder.count(recorder.operator_id(name), recorder.type_id(type),
                 {.hardware_flop = hardware_flop,
                  .model_flop = model_flop,
                  .recomputed_flop = recomputed_flop});
}

uint32_t mfu_observer_operator_id(const char* name) {
  return operator_id(name);
}
uint32_t mfu_observer_type_id(const char* name) {
  return type_id(name);
}

void mfu_observer_leave_graph(const struct mfu_observer_graph_row* rows, size_t count) {
  Thread& thread = this_thread;
  if (thread.quiet != 0) --thread.quiet;
  if (thread.quiet != 0 || (mode.load(std::memory_order_relaxed) & kCounting) == 0) return;
  for (size_t i = 0; i < count; ++i) {
    count_graph(thread,
                {.operator_id = rows[i].operator_id,
                 .type_id = rows[i].type_id,
                 .hardware_flop = rows[i].hardware_flop,
                 .model_flop = rows[i].model_flop,
                 .leading = rows[i].leading},
                {.calls = rows[i].calls, .recomputed_flop = rows[i].recomputed_flop});
  }
}

void mfu_observer_add_uncounted(const char* name, const char* reason) {
  if ((mode.load(std::memory_order_relaxed) & kCounting) == 0) return;
  count_unknown(this_thread, operator_id(name, reason));
}

void mfu_observer_add_lookup(uint64_t rows, uint64_t tokens, uint64_t samples) {
  if ((mode.load(std::memory_order_relaxed) & kCounting) == 0) return;
  count_lookup(this_thread, {.rows = rows, .tokens = tokens, .samples = samples});
}

void mfu_observer_optimizer_step(int leads) {
  optimizer_stepped(leads != 0);
}
void mfu_observer_mark_step(int64_t index) {
  mark_step(index);
}
void mfu_observer_add_checkpoint_ns(uint64_t duration_ns) {
  Recorder::process().add_phase(mfu::RegionPhase::checkpoint, duration_ns);
}
void mfu_observer_fact(const char* key, const char* value) {
  Recorder::process().fact(key, value);
}
void mfu_observer_set_rank(int32_t rank, int32_t world_size, int32_t local_rank) {
  Recorder::process().set_rank(rank, world_size, local_rank);
}
