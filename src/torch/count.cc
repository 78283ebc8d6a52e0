#include "torch/count.h"

#include <time.h>

#include "torch/capture.h"
#include "torch/devices.h"
#include "torch/pass_bytes.h"
#include "torch/pass_tokens.h"
#include "torch/passes.h"
#include "torch/window.h"

namespace mfu::observer {
namespace {

// How many backward passes with create_graph are running; -1 if there is no glue to tell.
constinit std::atomic<int> create_graph_count{-1};

Recorder& recorder() {
  static Recorder& process = Recorder::process();
  return process;
}

}  // namespace

// Grad mode is on inside a backward if a forward runs again for its saved tensors, or if the
// backward itself is recorded for a second derivative (torch.func.grad always does that). Then only
// the glue's marks tell them apart. Without glue, such a backward usually keeps its graph.
bool runs_again() noexcept {
  int create_graph = create_graph_count.load(std::memory_order_relaxed);
  if (create_graph < 0) return !torch::autograd::get_current_graph_task_keep_graph();
  return create_graph == 0;
}

void change_pass(Thread& thread, Pass pass, int task, const Call& given) noexcept {
  Call call = given;
  if (call.batched && pass != Pass::backward && !is_weight(thread, call)) call.weight = nullptr;
  std::uint64_t now_epoch = epoch.load(std::memory_order_relaxed);
  if (thread.optimizing != 0) thread.closure = true;
  if (pass == Pass::backward) {
    if (thread.pass != Pass::backward) close_pass(thread);
    pass_ended();
    if (task != thread.graph_task) {
      book_training(thread);
      begin_backward();
      thread.lookups_missed = 0;
    }
    if (thread.training_start_ns == 0) thread.training_start_ns = now_ns();
  } else {
    bool same_epoch = thread.epoch_seen == now_epoch;
    if (!same_epoch) thread.passes_of_epoch = 0;
    bool from_forward = thread.pass == Pass::recorded || thread.pass == Pass::plain;
    if (!from_forward) book_training(thread);
    if (same_epoch && thread.pass == pass && call.weight != thread.open.first_weight) {
      // a head was seen, so another model may have begun
      Follows follows = leaves_model(thread, call);
      if (follows == Follows::same) return;
      if (follows == Follows::call) {
        begin_lead(thread, pass);
      } else {
        begin_pass(thread, pass, call, true);
      }
    } else if (same_epoch && thread.pass == pass) {  // the first weight again
      // A custom Function is one node and one pass, however often it calls the model.
      if (call.offset != thread.open.first_offset || thread.recorded != 0) return;
      // A recurrent cell's loop or a long rollout would begin passes without end, which would cost
      // too much.
      constexpr std::uint32_t kMostPasses = 1 << 16;
      bool one_operator = thread.calls - thread.open.start_calls <= 1;
      bool many = ++thread.passes_of_epoch > kMostPasses;
      CallSeen seen = many ? CallSeen::same : see_call(thread.open);
      // One product repeats outside of modules: a recurrence written by hand.
      if (seen == CallSeen::same || (one_operator && seen == CallSeen::nobodys)) {
        thread.open.first_weight = nullptr;  // do not ask about the next ones either
        return;
      }
      begin_pass(thread, pass, call, true);
    } else if (same_epoch && thread.pass == Pass::recorded && pass == Pass::plain) {
      suspend_pass(thread, call);
    } else if (!same_epoch || pass != Pass::recorded || !resume_pass(thread, call)) {
      begin_pass(thread, pass, call, !same_epoch);
    }
  }
  thread.pass = pass;
  thread.graph_task = task;
  if (pass != Pass::backward) thread.epoch_seen = epoch.load(std::memory_order_relaxed);
}

void note_first(Thread& thread, const Call& call) noexcept {
  OpenPass& open = thread.open;
  if (call.small) return;
  // Each member of an ensemble sees the same samples.
  bool stacked = call.batched && call.weight == open.first_weight;
  std::int64_t first = stacked ? call.rows : call.leading;
  auto leading = static_cast<std::uint64_t>(first > 0 ? first : 0);
  if (open.leading == 0) open.leading = leading;
  if (call.batched) return;
  if (open.rows != 0) {
    open.next_rows = leading;
    open.watching = false;
  } else {
    open.rows = leading != 0 ? leading : 1;
    bool table = open.lookup_count != 0 && thread.pass == Pass::recorded;
    if (table && call.parameter != nullptr) watch_product(open, *call.parameter);
  }
}

void note_device(Thread& thread, std::int16_t device) noexcept {
  change_device(thread, device);
  tell_device(device);
}

void note_backward(Thread& thread) noexcept {
  find_consumed(thread);
}

void note_attention(Thread& thread, const Attended& attended) noexcept {
  OpenPass& open = thread.open;
  if (open.id == 0 || thread.pass == Pass::backward) return;
  if (open.batch == 0) open.batch = attended.batch;
  if (open.keys == 0) {
    open.queries = attended.queries;
    open.keys = attended.keys;
  } else if (open.cross_keys == 0 && attended.keys != open.keys) {
    open.cross_keys = attended.keys;
  }
}

// Scores are [queries, width] × [width, keys], values [queries, keys] × [keys, width].
void note_batched(Thread& thread, const Batched& product) noexcept {
  OpenPass& open = thread.open;
  if (open.id == 0 || thread.pass == Pass::backward) return;
  const Lookup& tokens = sequences_of(open);
  bool first = tokens.sizes[0] == product.queries, second = tokens.sizes[1] == product.queries;
  // Only the last positions of a sequence go on to the layers (the cache of x-transformers).
  bool alike = open.next_rows == 0 || open.next_rows == open.rows;
  bool last =
      tokens.sizes[1] > product.queries && alike && open.rows == tokens.sizes[0] * product.queries;
  // The experts are one batch of matrices.
  if (product.right->requires_grad() && product.right->is_leaf()) {
    open.bytes.weight_read += product.batch * product.inner * product.keys * product.element_bytes;
    open.outer = 0;
    return;
  }
  if (open.lookup_count == 0 || (!first && !second && !last)) {
    open.outer = 0;
    return;
  }
  if (open.outer == product.inner && product.inner != 0) {
    bool leads = second || last || tokens.sizes[1] == 0;
    std::uint64_t batch = leads ? tokens.sizes[0] : tokens.sizes[1];
    note_attention(thread, {.batch = batch, .queries = product.queries, .keys = product.inner});
    if (open.used_keys == 0 && open.scored.keys == product.inner) {
      open.used_keys = open.scored.longest;
    }
    note_batched_cache(thread, {.heads = product.batch,
                                .queries = product.queries,
                                .keys = product.inner,
                                .key_width = open.inner,
                                .value_width = product.keys,
                                .element_bytes = product.element_bytes,
                                .type = product.type});
    open.outer = 0;
    return;
  }
  open.outer = product.keys;
  open.inner = product.inner;
}

// None of the three moves while the thread lives.
void bind_thread(Thread& thread) noexcept {
  thread.autograd = &c10::AutogradState::get_tls_state();
  thread.block = Recorder::block();
  thread.recorder = &recorder();
  register_thread(thread);
}

bool put_aside(Thread& thread, const Call& call, std::uint64_t calls) noexcept {
  if (thread.aside == Thread::Aside::capturing) return add_captured(thread, call, calls);
  thread.calls += 1;
  thread.sums[call.type_id % kRegionTypes].hardware_flop += call.hardware_flop;
  return true;
}

void count_graph(Thread& thread, const Call& call, const Many& many) noexcept {
  if (join_capture(thread) && put_aside(thread, call, many.calls)) return;
  bool again = enter(thread, call);
  if (thread.open.watching) note_first(thread, call);
  mfu::CallCost cost{.hardware_flop = call.hardware_flop,
                     .model_flop = again ? 0 : call.model_flop,
                     .recomputed_flop = again ? call.hardware_flop : many.recomputed_flop};
  Sums& sums = thread.sums[call.type_id % kRegionTypes];
  thread.open.bytes.unknown = true;  // a graph does not tell which operands are weights
  thread.calls += many.calls;
  sums.calls += many.calls;
  sums.hardware_flop += cost.hardware_flop;
  sums.model_flop += cost.model_flop;
  sums.recomputed_flop += cost.recomputed_flop;
  recorder().count(call.operator_id, call.type_id, cost);
  // The recorder counts single calls.
  for (std::uint64_t i = 1; i < many.calls; ++i)
    recorder().count(call.operator_id, call.type_id, {});
}

void count_lookup(Thread& thread, const Lookup& lookup) noexcept {
  bool again = enter(thread, {});
  if (again || thread.pass == Pass::backward) return;
  add_lookup(thread, lookup);
}

void count_unknown(Thread& thread, unsigned id) noexcept {
  static const unsigned kNoType = type_id("unknown");
  thread.calls += 1;
  thread.sums[kNoType % kRegionTypes].calls += 1;
  recorder().count(id, kNoType, {});
}

unsigned operator_id(std::string_view name, std::string_view reason) {
  return recorder().operator_id(name, reason);
}

unsigned type_id(std::string_view name) {
  return recorder().type_id(name);
}

void change_create_graph(int change) noexcept {
  int none = -1;
  create_graph_count.compare_exchange_strong(none, 0);
  create_graph_count.fetch_add(change, std::memory_order_relaxed);
}

void begin_epoch() noexcept {
  epoch.fetch_add(1, std::memory_order_relaxed);
}

void begin_backward() noexcept {
  backward_epoch.store(epoch.fetch_add(1, std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
}

void end_pass(Thread& thread) noexcept {
  close_pass(thread);
  begin_epoch();
  pass_ended();
}

std::uint64_t now_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace mfu::observer
