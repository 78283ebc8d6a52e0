#include "torch/passes.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/StorageImpl.h>
#include <sched.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <vector>

#include "torch/boundaries.h"
#include "torch/device_time.h"
#include "torch/devices.h"
#include "torch/idle_watch.h"
#include "torch/mask_later.h"
#include "torch/models.h"
#include "torch/pass_table.h"
#include "torch/pass_tokens.h"

namespace mfu::observer {
namespace {

constexpr std::uint64_t kStepsToWait = 2;
constexpr std::uint32_t kMostMisses = 64;

constinit std::atomic<std::uint64_t> gap_ns{0};  // time between passes in the current step

std::uint64_t node_number() {
  return at::sequence_number::peek();
}

// `next` is a pass that begins; its first node already exists.
void close_locked(Thread& thread, Pass next = Pass::none) {
  OpenPass& open = thread.open;
  if (open.id == 0 || close_early(thread)) return;
  Entry* there = find_entry(open.id);
  Entry& entry = there != nullptr ? *there : free_entry();
  fill_entry(thread, entry);
  std::uint64_t node = node_number();
  entry.last_node = next == Pass::recorded && node != 0 ? node - 1 : node;
  take_sums(thread, entry);
  entry.open = false;
  Entry* lender = find_entry(open.lent_by);  // that pass only made the lookups of this one
  if (lender != nullptr && !lender->consumed && lender->lines == 0) {
    if (lender->recorded) waiting_passes.fetch_sub(1, std::memory_order_relaxed);
    *lender = {};
  }
  open.id = 0;
  open.watching = false;
  // Grad mode was on, but autograd had nothing to keep: no backward can use it. A custom Function
  // is one node, whatever it computes, and so is a compiled graph.
  bool kept = open.in_function || entry.last_node > entry.first_node + 1;
  if (entry.recorded && !entry.consumed && !kept) {
    waiting_passes.fetch_sub(1, std::memory_order_relaxed);
    entry.recorded = false;
  }
  if (entry.consumed) return book(entry, PassPhase::train);
  tell_generation(entry);
  remember(entry);
  if (entry.known != PassPhase::other) thread.told = entry.id;
  std::uint64_t before = entry.id - 1;
  // A pass of an engine is booked at once: nothing that follows tells more about it, and its
  // process may be killed at any time.
  if (entry.packed.cached && !entry.recorded) book(entry, phase_of(entry));
  // The pass before it stays, because it may be the encoder of a prompt.
  settle_plain(before, false);
}

void open_locked(Thread& thread, Pass pass, bool marked) {
  OpenPass& open = thread.open;
  open = {};
  open.id = passes().next_id++;
  open.start_ns = now_ns();
  open.start_calls = thread.calls;
  open.idle_ns = idle_ns();
  thread.product_rows = 0;  // the last product belonged to another pass
  open.marked = marked;
  open.amid =
      backward_epoch.load(std::memory_order_relaxed) == epoch.load(std::memory_order_relaxed);
  open.first = thread.epoch_seen != epoch.load(std::memory_order_relaxed);
  if (is_asynchronous(thread.device)) thread.stream = stream_of(thread.device);
  if (thread.gap_start_ns != 0) gap_ns.fetch_add(open.start_ns - thread.gap_start_ns);
  thread.gap_start_ns = 0;
  open.fetched = thread.fetched;
  thread.fetched = false;
  // The node of the current operator already exists.
  std::uint64_t node = node_number();
  open.first_node = node == 0 ? 0 : node - 1;
  open.in_function = thread.recorded != 0;
  if (pass != Pass::recorded) return;
  Entry& entry = free_entry();
  entry.id = open.id;
  entry.thread = thread.number;
  entry.first_node = open.first_node;
  entry.open = entry.recorded = true;
  waiting_passes.fetch_add(1, std::memory_order_relaxed);
}

void begin_unnamed(Thread& thread, Pass pass, bool marked) {
  settle_masks();
  Lock lock;
  close_locked(thread, pass);
  open_locked(thread, pass, marked);
}

// Says whose pass it is. Its sequences are samples once, and not again if the same model runs on
// them again, as a decoder does on its encoder's.
void name_pass(OpenPass& open, const FirstWeight& weight, Pass pass) {
  Found found;
  ModelSeen seen = nullptr;
  {
    Lock lock;
    found = passes().models.find(weight);
    seen = passes().seen;
  }
  bool unknown = weight.storage == nullptr && open.amid;
  if (found.model == kOtherModel && !unknown) open.amid = false;
  bool asked = (found.is_new || found.unsure) && seen != nullptr;
  bool in_doubt = unknown && pass == Pass::plain && seen != nullptr;
  if (asked || in_doubt) seen(unknown ? kThisPass : found.model);
  Lock lock;
  if (asked) found = passes().models.find(weight);  // it may have another number now
  std::uint32_t joined = passes().models[found.model].joined;
  if (pass == Pass::plain && joined != kOtherModel) found.model = joined;
  Model& model = passes().models[found.model];
  std::uint64_t now = epoch.load(std::memory_order_relaxed);
  open.model = found.model;
  open.evaluates = model.evaluates;
  open.loops = model.loops;
  // Models that share the last number are told apart by their weight.
  bool same = found.model != kOtherModel || model.storage == weight.storage;
  std::uint64_t& counted =
      model.counted_epoch[pass == Pass::recorded ? 1 : 0][model.evaluates ? 1 : 0];
  open.first = !same || counted != now;
  if (found.model == kOtherModel) model.storage = weight.storage;
  counted = now;
}

bool step_before(const FirstWeight& weight) {
  Lock lock;
  return passes().updates && passes().models.take_update(weight);
}

void book_training_locked(Thread& thread) {
  Entry entry;
  take_sums(thread, entry);
  entry.passes = 0;
  entry.model = passes().trained_model;
  if (thread.training_start_ns != 0) entry.duration_ns = now_ns() - thread.training_start_ns;
  thread.training_start_ns = 0;
  if (entry.lines != 0 || entry.duration_ns != 0) book(entry, PassPhase::train);
}

// Nothing was counted in it yet.
void discard_open(Thread& thread) {
  Lock lock;
  if (Entry* entry = find_entry(thread.open.id)) {
    if (entry->recorded && !entry->consumed) {
      waiting_passes.fetch_sub(1, std::memory_order_relaxed);
    }
    *entry = {};
  }
  thread.open = {};
}

// The numbers of a thread stay when it ends.
struct ThreadEnd {
  ~ThreadEnd() {
    Lock lock;
    Thread& thread = this_thread;
    close_locked(thread);
    book_training_locked(thread);
    std::erase(passes().threads, &thread);
  }
  void hold() {}
};

}  // namespace

void register_thread(Thread& thread) noexcept {
  static thread_local ThreadEnd end;
  end.hold();
  Lock lock;
  thread.number = at::RecordFunction::currentThreadId();
  passes().threads.push_back(&thread);
}

void begin_pass(Thread& thread, Pass pass, const Call& call, bool marked) noexcept {
  FirstWeight weight{call.weight, call.offset, call.parameter};
  // Under autocast, too, a model is identified by its parameter.
  at::Tensor parameter;
  bool may_be_cast = pass == Pass::recorded && call.parameter != nullptr;
  if (may_be_cast && call.parameter->defined()) parameter = cast_from(*call.parameter);
  if (parameter.defined()) {
    weight = {parameter.storage().unsafeGetStorageImpl(), parameter.storage_offset(), &parameter};
  }
  // not inside an optimizer's closure
  bool steps = pass == Pass::recorded && thread.optimizing == 0;
  if (steps && weight.storage != nullptr && step_before(weight)) update_seen();
  begin_unnamed(thread, pass, marked);
  // A pass without a weight may still begin with a table. add_lookup() names it then.
  name_pass(thread.open, weight, pass);
  thread.open.first_weight = call.weight;
  thread.open.first_offset = call.offset;
  if (thread.open.loops) remember_call();
}

void begin_lead(Thread& thread, Pass pass) noexcept {
  std::uint32_t model = thread.open.model;
  begin_unnamed(thread, pass, true);
  thread.open.model = model;
  thread.open.leads = true;
}

void suspend_pass(Thread& thread, const Call& call) noexcept {
  OpenPass suspended = thread.open;
  bool looked = suspended.lookup_count != 0 && thread.calls == suspended.start_calls;
  begin_pass(thread, Pass::plain, call, false);
  thread.open.amid = call.weight != nullptr;
  // A prompt that comes as embeddings. Its lookup ran earlier, with grad.
  if (looked && call.weight != nullptr && !call.batched) {
    thread.open.lookups = suspended.lookups;
    thread.open.lookup_count = suspended.lookup_count;
    thread.open.lent_by = suspended.id;
    thread.open.amid = false;
  }
  thread.suspended = suspended;
}

bool resume_pass(Thread& thread, const Call& call) noexcept {
  OpenPass& open = thread.open;
  OpenPass before = thread.suspended;
  thread.suspended.id = 0;
  bool again = call.weight != nullptr && call.weight == before.first_weight;
  bool looks = open.lookup_count != 0 && open.lent_by != before.id;
  if (before.id == 0 || open.id == 0 || open.marked || looks || again) return false;
  Lock lock;
  Entry* entry = find_entry(before.id);
  if (entry == nullptr || entry->consumed || !entry->recorded) return false;
  // Operators without grad in its middle are part of it, unless they were another module's pass.
  bool other =
      open.model != before.model && open.model < kOtherModel && passes().models[open.model].named;
  if (other) {
    close_locked(thread, Pass::recorded);
    before.start_ns = now_ns();
    entry = find_entry(before.id);
    if (entry == nullptr) return false;
  } else {
    std::uint64_t id = open.id;
    open.id = 0;
    if (Entry* plain = find_entry(id); plain != nullptr) *plain = {};
    take_sums(thread, *entry);
    entry->duration_ns = 0;
  }
  entry->open = true;
  entry->last_node = ~0ull;
  open = before;
  return true;
}

void close_pass(Thread& thread) noexcept {
  if (thread.open.id == 0) return;
  Lock lock;
  close_locked(thread);
}

void add_lookup(Thread& thread, const Lookup& lookup) noexcept {
  OpenPass& open = thread.open;
  auto end = open.lookups.begin() + open.lookup_count;
  auto there = std::find_if(open.lookups.begin(), end,
                            [&](const Lookup& each) { return each.table == lookup.table; });
  if (open.leads) {  // what came so far is part of it, but tells nothing about its tokens
    open.leads = false;
    open.start_calls = thread.calls;
    open.leading = open.rows = open.next_rows = 0;
    open.watching = true;
  }
  bool computes = thread.calls != open.start_calls;
  // Indices with one dimension are tokens only if a pass begins with them. Otherwise they are
  // labels.
  bool plain = lookup.sizes[1] != 0;
  // Two lookups before anything is computed are two inputs of one pass, as of an encoder and a
  // decoder.
  bool again = there == open.lookups.begin() && open.lookup_count != 0 && computes &&
               (plain || open.first_weight == nullptr);
  bool other_model = false;
  if (computes && there == end) {
    other_model = plain && (open.lookup_count == 0 ? lookup.rows > 32
                                                   : 2 * lookup.rows >= open.lookups[0].rows);
    Lock lock;
    other_model = other_model || (plain && passes().models.knows(lookup.table));
  }
  if (open.id == 0 || again || other_model) {
    begin_unnamed(thread, thread.pass, true);
    there = end = open.lookups.begin();
    computes = false;
  }
  if (open.lookup_count == 0 && !computes && open.first_weight == nullptr) {
    FirstWeight weight{lookup.table, 0, lookup.parameter};
    Pass pass = thread.pass;
    if (pass == Pass::recorded && thread.optimizing == 0 && step_before(weight)) {
      discard_open(thread);
      update_seen();
      begin_unnamed(thread, pass, true);
      thread.pass = pass;
      thread.epoch_seen = epoch.load(std::memory_order_relaxed);
      there = end = open.lookups.begin();
    }
    name_pass(open, weight, pass);
    open.marked = true;
    // one would be enough if each made logits and another pass followed
    constexpr std::uint8_t kRemembered = 4;
    Model& model = passes().models[open.model];
    bool asks = pass == Pass::plain && model.tails.back() == nullptr && is_storage(lookup.table);
    if (asks) open.head_columns = lookup.rows;
    open.asks = asks && model.calls_remembered < kRemembered;
    if (open.asks) {
      ++model.calls_remembered;
      remember_call();
    }
  }
  if (there != end) {
    there->tokens += lookup.tokens;
  } else if (open.lookup_count < kLookups) {
    open.lookups[open.lookup_count] = lookup;
    open.lookups[open.lookup_count++].parameter = nullptr;
  }
}

void find_consumed(Thread& thread) noexcept {
  if (thread.lookups_missed >= kMostMisses) return;
  auto node = torch::autograd::get_current_node();
  if (!node) return;
  std::uint64_t number = node->sequence_nr(), owner = node->thread_id();
  Lock lock;
  for (Entry& each : entries_used()) {
    bool holds = each.id != 0 && each.recorded && !each.consumed && each.thread == owner &&
                 number >= each.first_node && number < each.last_node;
    if (!holds) continue;
    thread.lookups_missed = 0;
    return book_consumed(each);
  }
  ++thread.lookups_missed;
}

void book_training(Thread& thread) noexcept {
  Lock lock;
  book_training_locked(thread);
}

// Time between two passes belongs to the earlier one, unless it is long.
void book_gap(std::uint64_t step_ns) noexcept {
  constexpr std::uint64_t kMuch = 20;  // longer than one part in so many of the step
  std::uint64_t gap = gap_ns.exchange(0), model = 0;
  {
    Lock lock;
    model = passes().trained_model;
  }
  PassPhase phase = gap * kMuch > step_ns ? PassPhase::other : PassPhase::train;
  Recorder::process().add_pass_time(phase, static_cast<unsigned>(model), gap);
}

void settle_passes(Thread& thread, bool everything) noexcept {
  settle_masks();
  if (everything) book_resting(true);
  Lock lock;
  close_locked(thread);
  for (Thread* each : passes().threads) {
    if (each == &thread || (each->pass == Pass::backward && each->open.id == 0)) {
      book_training_locked(*each);
    }
  }
  if (!everything) ++passes().steps;
  settle_plain(~0ull, everything);
  for (Entry& each : entries_used()) {
    if (each.id == 0 || each.open) continue;
    // A model that was not trained in the step in which it ran is a reference or a reward model.
    std::uint64_t patience = each.recorded ? kStepsToWait : 0;
    if (everything || passes().steps - each.step > patience) book(each, phase_of(each));
  }
}

Waiting waiting(const Thread& thread) noexcept {
  Lock lock;
  Waiting sum;
  auto add = [&](const Tokens& tokens, bool first) {
    sum.tokens += tokens.tokens;
    if (first) sum.samples += tokens.samples;
    sum.token_rows = std::max(sum.token_rows, tokens.rows);
  };
  for (const Entry& each : entries_used()) {
    if (each.id == 0 || each.open) continue;
    add(each.tokens, brings_samples(each, each.recorded ? PassPhase::train : phase_of(each)));
  }
  bool booked = is_early(thread.open.id);
  if (thread.open.id != 0 && !booked) {
    add(tokens_of(thread.open, thread.columns), thread.open.first);
  }
  return sum;
}

void change_device(Thread& thread, std::int16_t device) noexcept {
  Lock lock;
  Entry* entry = find_entry(thread.open.id);
  if (thread.device >= 0 && entry == nullptr && thread.open.id != 0) {
    entry = &free_entry();  // a plain pass gets an entry only when it closes
    entry->id = thread.open.id;
    entry->open = true;
  }
  Entry between;
  take_sums(thread, entry != nullptr ? *entry : between);
  if (entry == nullptr && between.lines != 0) {
    between.passes = 0;
    between.model = passes().trained_model;
    book(between, PassPhase::train);
  }
  thread.device = device;
  if (is_asynchronous(device)) thread.stream = stream_of(device);
}

void watch_updates(bool wanted) noexcept {
  Lock lock;
  passes().updates = wanted;
}

std::uint64_t passes_begun() noexcept {
  Lock lock;
  return passes().next_id;
}

bool was_updated() noexcept {
  Lock lock;
  return passes().updates && passes().models.any_updated();
}

void optimizer_made() noexcept {
  Lock lock;
  passes().models.by_hand = false;
}

bool has_optimizer() noexcept {
  Lock lock;
  return !passes().models.by_hand;
}

void gradients_dropped() noexcept {
  Lock lock;
  if (passes().updates) passes().models.drop_gradients();
}

void watch_product(const OpenPass& open, const at::Tensor& weight) noexcept {
  Lock lock;
  if (passes().updates) passes().models.watch_dense(open.model, weight);
}

void forget_passes(Thread& thread) noexcept {
  Lock::held.store(false);
  forget_idle();
  forget_masks();
  for (Entry& each : entries_used()) each = {};
  passes().early.clear();
  waiting_passes.store(0);
  passes().threads = {&thread};
  thread.open = thread.suspended = {};
  thread.booked = thread.sums;
}

}  // namespace mfu::observer
