#include "torch/count.h"

#include <time.h>

namespace mfu::observer {
namespace {

constinit std::atomic<std::uint64_t> widest_rows{0};
// Backward passes with create_graph under way; -1 where no glue tells.
constinit std::atomic<int> create_graph_count{-1};

Recorder& recorder() {
  static Recorder& process = Recorder::process();
  return process;
}

void book_validation(Thread& thread) {
  if (thread.forward_only_start_ns == 0) return;
  recorder().add_phase(RegionPhase::validation, now_ns() - thread.forward_only_start_ns);
  thread.forward_only_start_ns = 0;
}

}  // namespace

// Grad mode on inside backward: a forward that runs again for its saved tensors, unless the
// backward itself is recorded for a second derivative, as torch.func.grad's always is. Then only
// the glue's marks tell them apart; without glue, such a backward keeps its graph as a rule.
bool runs_again() noexcept {
  int create_graph = create_graph_count.load(std::memory_order_relaxed);
  if (create_graph < 0) return !torch::autograd::get_current_graph_task_keep_graph();
  return create_graph == 0;
}

void change_pass(Thread& thread, Pass pass, int task, std::int64_t leading) noexcept {
  if (pass == Pass::backward && task != thread.graph_task) {
    epoch.fetch_add(1, std::memory_order_relaxed);
  }
  bool forward = pass == Pass::training || pass == Pass::forward_only;
  if (forward || thread.pass != pass) book_samples(thread);
  if (pass != Pass::forward_only) book_validation(thread);
  if (pass == Pass::forward_only && thread.forward_only_start_ns == 0) {
    thread.forward_only_start_ns = now_ns();
  }
  if (forward && leading > 0 && widest_rows.load(std::memory_order_relaxed) == 0) {
    recorder().add_samples(static_cast<std::uint64_t>(leading));
  }
  thread.pass = pass;
  thread.graph_task = task;
  thread.epoch_seen = epoch.load(std::memory_order_relaxed);
}

// None of the three moves while the thread lives.
void bind_thread(Thread& thread) noexcept {
  thread.autograd = &c10::AutogradState::get_tls_state();
  thread.block = Recorder::block();
  thread.recorder = &recorder();
}

void count_graph(Thread& thread, const Call& call, const Many& many) noexcept {
  bool again = enter(thread, call.leading);
  mfu::CallCost cost{.hardware_flop = call.hardware_flop,
                     .model_flop = again ? 0 : call.model_flop,
                     .recomputed_flop = again ? call.hardware_flop : many.recomputed_flop};
  thread.calls += many.calls;
  thread.hardware_flop += cost.hardware_flop;
  thread.model_flop += cost.model_flop;
  thread.recomputed_flop += cost.recomputed_flop;
  recorder().count(call.operator_id, call.type_id, cost);
  // The recorder knows single calls.
  for (std::uint64_t i = 1; i < many.calls; ++i)
    recorder().count(call.operator_id, call.type_id, {});
}

void count_lookup(Thread& thread, const Lookup& lookup) noexcept {
  if (enter(thread, 0)) return;
  std::uint64_t widest = widest_rows.load(std::memory_order_relaxed);
  while (lookup.rows > widest && !widest_rows.compare_exchange_weak(widest, lookup.rows)) {
  }
  recorder().add_tokens(lookup.rows, lookup.tokens);
  if (lookup.rows > thread.lookup_rows) {
    thread.lookup_rows = lookup.rows;
    thread.lookup_samples = 0;
  }
  if (lookup.rows == thread.lookup_rows) thread.lookup_samples += lookup.samples;
}

void count_unknown(Thread& thread, unsigned id) noexcept {
  static const unsigned kNoType = type_id("unknown");
  thread.calls += 1;
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

void book_samples(Thread& thread) noexcept {
  if (thread.lookup_rows != 0 &&
      thread.lookup_rows >= widest_rows.load(std::memory_order_relaxed)) {
    recorder().add_samples(thread.lookup_samples);
  }
  thread.lookup_rows = thread.lookup_samples = 0;
}

void begin_epoch() noexcept {
  epoch.fetch_add(1, std::memory_order_relaxed);
}

void end_pass(Thread& thread) noexcept {
  book_samples(thread);
  book_validation(thread);
  thread.pass = Pass::none;
  begin_epoch();
}

std::uint64_t now_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace mfu::observer
