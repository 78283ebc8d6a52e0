#include "torch/pass_table.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <optional>

#include "ops/operands.h"
#include "torch/devices.h"
#include "torch/idle_watch.h"
#include "torch/mask_later.h"

namespace mfu::observer {
namespace {

constexpr std::uint64_t kMostSpeculated = kMostDrafted;  // most tokens in one verification
constexpr std::uint64_t kLateness = 4;  // after so many passes nothing more is learned about one

Recorder& table_recorder() {
  static Recorder& process = Recorder::process();
  return process;
}

}  // namespace

void add_flop(Entry& entry, const PassFlop& flop) {
  for (std::uint32_t i = 0; i < entry.lines; ++i) {
    PassFlop& there = entry.flop[i];
    bool last = i + 1 == kPassFlops;
    if (!last && (there.device != flop.device || there.type != flop.type)) continue;
    there.calls += flop.calls;
    there.hardware_flop += flop.hardware_flop;
    there.model_flop += flop.model_flop;
    there.recomputed_flop += flop.recomputed_flop;
    there.bytes += flop.bytes;
    return;
  }
  entry.flop[entry.lines++] = flop;
}

namespace {

// Merges passes that wait for the same answer, oldest first, so that the table never fills.
void make_room() {
  Entry* oldest[2] = {nullptr, nullptr};
  for (Entry& each : entries_used()) {
    if (each.open) continue;
    if (oldest[0] == nullptr || each.id < oldest[0]->id) oldest[0] = &each;
  }
  if (oldest[0] == nullptr) return;
  for (Entry& each : entries_used()) {
    bool alike = !each.open && each.id != oldest[0]->id && each.model == oldest[0]->model &&
                 each.recorded == oldest[0]->recorded && each.thread == oldest[0]->thread &&
                 each.known == oldest[0]->known;
    if (alike && (oldest[1] == nullptr || each.id < oldest[1]->id)) oldest[1] = &each;
  }
  Entry& into = *oldest[0];
  if (oldest[1] == nullptr || !into.recorded) return book(into, phase_of(into));
  Entry& from = *oldest[1];
  for (std::uint32_t i = 0; i < from.lines; ++i) add_flop(into, from.flop[i]);
  into.passes += from.passes;
  into.duration_ns += from.duration_ns;
  into.tokens.tokens += from.tokens.tokens;
  into.tokens.padded += from.tokens.padded;
  into.tokens.samples += from.tokens.samples;
  into.bytes.weight_read += from.bytes.weight_read;
  into.bytes.cache_read += from.bytes.cache_read;
  into.bytes.cache_written += from.bytes.cache_written;
  into.last_node = std::max(into.last_node, from.last_node);
  waiting_passes.fetch_sub(1, std::memory_order_relaxed);
  from = {};
}

}  // namespace

Passes& passes() {
  static Passes* instance = new Passes;
  return *instance;
}

std::span<Entry> entries_used() {
  Passes& all = passes();
  while (all.used != 0 && all.entries[all.used - 1].id == 0) --all.used;
  return {all.entries.data(), all.used};
}

Entry* find_entry(std::uint64_t id) {
  if (id == 0) return nullptr;
  for (Entry& each : entries_used()) {
    if (each.id == id) return &each;
  }
  return nullptr;
}

void take_sums(Thread& thread, Entry& entry) {
  std::uint8_t device = device_number(thread.device);
  for (std::size_t type = 0; type < kRegionTypes; ++type) {
    // Another thread may be counting. What is missed now is seen the next time.
    Sums now = thread.sums[type];
    Sums& before = thread.booked[type];
    if (now.calls == before.calls && now.hardware_flop == before.hardware_flop) continue;
    add_flop(entry, {.device = device,
                     .type = static_cast<std::uint8_t>(type),
                     .calls = now.calls - before.calls,
                     .hardware_flop = now.hardware_flop - before.hardware_flop,
                     .model_flop = now.model_flop - before.model_flop,
                     .recomputed_flop = now.recomputed_flop - before.recomputed_flop,
                     .bytes = now.bytes - before.bytes});
    before = now;
  }
}

// Whether a pass brings sequences that no earlier pass brought. A pass that no backward uses does,
// unless it continues another one: with its cache, or as its decoder.
bool brings_samples(const Entry& entry, PassPhase phase) {
  if (phase == PassPhase::decode) return false;
  if (entry.packed.cached) return entry.packed.begun != 0;
  if (entry.first) return true;
  bool cached = entry.tokens.each != 0 && entry.keys > entry.tokens.each;
  return phase != PassPhase::train && entry.cross_keys == 0 && !cached;
}

void tell_padding(const Tokens& tokens) {
  static constinit std::atomic<bool> seen{false}, unread{false};
  if (tokens.padding_seen && !seen.exchange(true)) table_recorder().fact("padding", "seen");
  if (tokens.padding_unread && !unread.exchange(true)) table_recorder().fact("padding", "unread");
}

bool is_part_of_step(const Entry& entry) {
  const Model& model = passes().models[entry.model];
  bool nobodys = entry.model == kOtherModel || (!model.named && !model.trained);
  return entry.amid && passes().seen != nullptr && !entry.recorded && nobodys &&
         entry.tokens.rows == 0 && entry.known == PassPhase::other;
}

void book(Entry& entry, PassPhase phase) {
  if (entry.recorded && !entry.consumed) waiting_passes.fetch_sub(1, std::memory_order_relaxed);
  tell_padding(entry.tokens);
  place_masked(entry.id, phase, entry.model);
  if (phase == PassPhase::validation) {
    table_recorder().add_phase(RegionPhase::validation, entry.duration_ns);
  }
  bool generates = phase == PassPhase::prefill || phase == PassPhase::decode;
  if (is_part_of_step(entry)) {
    entry.passes = 0;
    entry.tokens = {};
    entry.model = passes().trained_model;
  }
  if (phase != PassPhase::train) watch_idle();
  if (generates && book_parts(entry)) {
    entry = {};
    return;
  }
  bool moves = phase != PassPhase::train && !entry.bytes.unknown;
  std::uint64_t samples = entry.packed.cached ? entry.packed.begun : entry.tokens.samples;
  table_recorder().add_pass(
      {.phase = phase,
       .model = static_cast<std::uint8_t>(entry.model),
       .passes = entry.passes,
       .tokens = entry.tokens.tokens,
       .padded_tokens = entry.tokens.padded,
       .samples = brings_samples(entry, phase) ? samples : 0,
       .token_rows = entry.tokens.rows,
       .duration_ns = entry.duration_ns,
       .batch = entry.packed.sequences != 0 ? entry.packed.sequences : entry.tokens.samples,
       .weight_read_bytes = moves ? entry.bytes.weight_read : 0,
       .cache_read_bytes = moves && generates ? entry.bytes.cache_read : 0,
       .cache_written_bytes = moves && generates ? entry.bytes.cache_written : 0,
       .flop = {entry.flop.data(), entry.lines}});
  entry = {};
}

// A backward alone is no training: saliency and attacks need the gradient of the input.
static bool is_trained(const Model& model) {
  return model.trained && passes().steps != 0;
}

static bool is_few(const Entry& entry, const Model& model) {
  return 2 * entry.tokens.samples <= model.trained_batch;
}

// The last batch of a validation may be small. The ones before it are full, and may be waiting here
// too.
static bool ends_validation(const Entry& entry) {
  const Model& model = passes().models[entry.model];
  std::span<Entry> used = entries_used();
  return std::any_of(used.begin(), used.end(), [&](const Entry& each) {
    return each.id != 0 && !each.open && !each.recorded && each.model == entry.model &&
           each.step == entry.step && each.evaluates && !is_few(each, model);
  });
}

// Whether it is a prompt after which no token followed: only the last token of each sequence got
// logits.
static bool is_prompt(const Entry& entry) {
  std::uint64_t packed = entry.packed.sequences;
  return entry.tokens.each > 1 && entry.head_rows == (packed != 0 ? packed : entry.tokens.samples);
}

PassPhase phase_of(const Entry& entry) {
  if (entry.known != PassPhase::other) return entry.known;
  if (is_part_of_step(entry)) return PassPhase::train;
  Model& model = passes().models[entry.model];
  if (!is_trained(model) && is_prompt(entry)) return PassPhase::prefill;
  if (!is_trained(model) || !entry.evaluates || model.frozen) return PassPhase::forward;
  // A policy that acts: a few at a time, without data set and loss.
  bool acts = !entry.met_loss && !entry.fetched && is_few(entry, model);
  if (acts && model.validated_step != entry.step + 1 && !ends_validation(entry)) {
    return PassPhase::forward;
  }
  model.validated_step = entry.step + 1;
  return PassPhase::validation;
}

void book_consumed(Entry& entry) {
  Model& model = passes().models[entry.model];
  if (!entry.consumed && entry.recorded) waiting_passes.fetch_sub(1, std::memory_order_relaxed);
  entry.consumed = true;
  model.trained = true;
  ++(accumulates.load(std::memory_order_relaxed) ? model.backwards : model.functional);
  model.trained_batch = entry.tokens.samples;
  passes().trained_model = entry.model;
  if (!entry.open) book(entry, PassPhase::train);
}

Entry& free_entry() {
  Passes& all = passes();
  for (int tries = 0; tries < 2; ++tries) {
    for (Entry& each : entries_used()) {
      if (each.id == 0) return each;
    }
    if (all.used < kWaiting) return all.entries[all.used++];
    make_room();
  }
  Entry& first = passes().entries[0];  // all are open: there are as many threads as entries
  book(first, PassPhase::other);
  return first;
}

// For a pass that brings a few tokens to a cache: were they drafted, by this model or by the one it
// verifies for, or are they a prompt? A verification needs the logits of all of them, a prompt only
// those of the last.
static bool verifies(const Entry& entry, const Model& model) {
  bool generates = model.before == PassPhase::prefill || model.before == PassPhase::decode;
  if (entry.tokens.each > kMostSpeculated) return false;
  if (entry.head_rows == 0) return generates;
  if (entry.head_rows == entry.tokens.tokens) return generates || !model.before_all_logits;
  // A model that drafts catches up with its own last token and the one that was put after it. The
  // model that verifies ran in between, or it is the same one.
  bool verified =
      entry.id > model.before_id + 1 || (model.before_each > 1 && model.before_all_logits);
  return entry.tokens.each == 2 && !model.before_chunk && verified;
}

// What a prompt attends across to, or contains, came right before it: passes of the same model
// without their own tokens, or one that it attends across to.
static void tell_encoder(const Entry& prompt) {
  std::uint64_t next = prompt.id;
  bool across = prompt.cross_keys != 0;
  for (;;) {
    Entry* encoder = nullptr;
    for (Entry& other : entries_used()) {
      bool before =
          other.id > prompt.told_before && other.id < next && other.thread == prompt.thread;
      if (before && (encoder == nullptr || other.id > encoder->id)) encoder = &other;
    }
    if (encoder == nullptr || encoder->known != PassPhase::other || encoder->recorded) return;
    bool trial = prompt.packed.cached && encoder->looked;  // of an engine, before it serves
    bool inside = encoder->model == prompt.model && encoder->tokens.rows == 0 && !trial;
    if (!across && !inside) return;
    // The first token may have been tried before (MusicGen): that pass attends to the same encoder.
    across = across && encoder->cross_keys != 0 && encoder->model == prompt.model;
    encoder->known = PassPhase::prefill;
    encoder->bytes.cache_written = 0;  // nobody uses its keys and values again
    next = encoder->id;
  }
}

// If there are more rows of logits than sequences, sequences with a few tokens verify drafted ones.
static void take_drafted(Entry& entry) {
  Packed& packed = entry.packed;
  if (entry.head_rows <= packed.sequences) return;
  PackedPart& few = packed.few;
  packed.decode.sequences += few.sequences;
  packed.decode.rows += few.rows;
  packed.decode.model_flop += few.model_flop;
  packed.decode.hardware_flop += few.hardware_flop;
  packed.decode.read += few.read;
  packed.decode.written += few.written;
  few = {};
}

void tell_generation(Entry& entry) {
  Model& model = passes().models[entry.model];
  std::uint64_t each = entry.tokens.each, keys = entry.keys;
  bool follows = model.before_id != 0 && model.before_samples == entry.tokens.samples;
  bool cached = keys > each && each != 0 && entry.queries == each;
  // A reward model sees longer sequences by chance, but a step or a batch later.
  bool grows = follows && model.before_each != 0 && each == model.before_each + 1 &&
               !model.before_cached && model.before_epoch == entry.epoch;
  // A pass with a loss is no generation, even if learned keys (prefix tuning) look like a cache.
  if (entry.tokens.rows == 0 || entry.met_loss) return;
  if (entry.packed.cached) take_drafted(entry);
  bool packed = entry.packed.sequences != 0;
  // NOLINTBEGIN(bugprone-branch-clone): the order decides
  if (packed && entry.packed.decode.rows != 0) {
    entry.known = PassPhase::decode;  // book_parts() separates its prompts
  } else if (packed && (keys > each || entry.packed.cached)) {
    entry.known = PassPhase::prefill;
  } else if (cached && (each == 1 || verifies(entry, model))) {
    entry.known = PassPhase::decode;
  } else if (cached) {
    entry.known = PassPhase::prefill;
  } else if (keys == 0 && each == 1 && follows) {
    entry.known = PassPhase::decode;  // it has a state instead of a cache
  } else if (grows && (each > 2 || keys == each)) {
    entry.known = PassPhase::decode;  // without a cache it brings the whole sequence again
    entry.bytes.cache_written = 0;
  }
  // NOLINTEND(bugprone-branch-clone)
  if (entry.known == PassPhase::other) return;
  watch_idle();
  // The pass before it was the prompt, or its first part.
  Entry* prompt = find_entry(model.before_id);
  // An engine's prompts are known from its attention. What it ran before them was a trial.
  bool met = !entry.packed.cached && (entry.known == PassPhase::decode || follows);
  if (!met || prompt == nullptr || prompt->known != PassPhase::other) {
    prompt = entry.known == PassPhase::prefill ? &entry : nullptr;
  } else {
    prompt->known = PassPhase::prefill;
    if (!cached && entry.packed.sequences == 0) prompt->bytes.cache_written = 0;
    if (entry.bytes.latent) prompt->bytes.cache_written = prompt->bytes.latent_written;
  }
  if (prompt != nullptr) tell_encoder(*prompt);
}

void remember(const Entry& entry) {
  Model& model = passes().models[entry.model];
  model.before_id = entry.id;
  model.before_each = entry.tokens.each;
  model.before_epoch = entry.epoch;
  model.before_samples = entry.tokens.samples;
  model.before = entry.known;
  model.before_all_logits = entry.head_rows == entry.tokens.tokens;
  if (entry.head_rows != 0) model.makes_logits = true;
  model.before_cached = entry.keys > entry.tokens.each;
  bool prompts = entry.packed.sequences > entry.packed.decode.sequences;
  model.before_chunk =
      prompts || (entry.known == PassPhase::prefill && entry.keys > entry.tokens.each);
}

void settle_plain(std::uint64_t newest, bool everything) {
  for (Entry& each : entries_used()) {
    if (each.id == 0 || each.open || each.recorded) continue;
    // An encoder is recognised by the prompt after it, and the prompt by what follows it.
    if (each.id >= newest && each.known == PassPhase::other) continue;
    bool late = each.id < newest && newest - each.id > kLateness;
    bool trained = is_trained(passes().models[each.model]) && late;
    if (each.known != PassPhase::other || trained || everything) {
      book(each, phase_of(each));
    }
  }
}

// Fills in what is known of the open pass.
void fill_entry(const Thread& thread, Entry& entry) {
  const OpenPass& open = thread.open;
  entry.id = open.id;
  entry.thread = thread.number;
  entry.told_before = thread.told;
  entry.epoch = thread.epoch_seen;
  entry.first_node = open.first_node;
  entry.step = passes().steps;
  std::uint64_t now = now_ns();
  std::uint64_t idle = std::min(idle_ns() - open.idle_ns, now - open.start_ns);
  entry.duration_ns += now - open.start_ns - idle;
  entry.tokens = tokens_of(open, thread.columns);
  entry.queries = open.queries;
  entry.keys = open.used_keys != 0 ? open.used_keys : open.keys;  // the used part of a static cache
  entry.cross_keys = open.cross_keys;
  entry.model = open.model;
  entry.met_loss = open.met_loss;
  entry.fetched = open.fetched;
  entry.first = open.first;
  entry.evaluates = open.evaluates;
  entry.amid = open.amid;
  entry.looked = open.lookup_count != 0;
  entry.bytes = open.bytes;
  entry.packed = open.packed;
  if (const Lookup& table = sequences_of(open); table.rows == thread.columns) {
    entry.head_rows = thread.product_rows;
    entry.head_flop = 2 * thread.product_rows * thread.columns * thread.product_inner;
  }
}

static std::vector<EarlyPass>::iterator find_early(std::uint64_t id) {
  std::vector<EarlyPass>& early = passes().early;
  return std::find_if(early.begin(), early.end(),
                      [&](const EarlyPass& each) { return each.id == id; });
}

// What a pass did after book_resting() had booked it. `whole` is all of it.
static void book_rest(const EarlyPass& early, Entry& whole, Entry& rest) {
  rest.passes = 0;
  rest.model = whole.model;
  rest.duration_ns = whole.duration_ns - std::min(whole.duration_ns, early.duration_ns);
  rest.bytes.unknown = whole.bytes.unknown;
  rest.bytes.weight_read = whole.bytes.weight_read - early.bytes.weight_read;
  rest.bytes.cache_read = whole.bytes.cache_read - early.bytes.cache_read;
  if (whole.keys > whole.tokens.each) {  // it met a cache
    rest.bytes.cache_written = whole.bytes.cache_written - early.bytes.cache_written;
  }
  bool generates = early.phase == PassPhase::prefill || early.phase == PassPhase::decode;
  if (generates) whole.known = early.phase;
  if (passes().models[whole.model].before_id == whole.id) remember(whole);
  book(rest, early.phase);
}

// Whether book_resting() booked the open pass. What was counted since then is added to it.
bool close_early(Thread& thread) {
  std::vector<EarlyPass>& early = passes().early;
  auto found = find_early(thread.open.id);
  if (found == early.end()) return false;
  Entry whole, rest;
  fill_entry(thread, whole);
  take_sums(thread, rest);
  thread.open.id = 0;
  thread.open.watching = false;
  if (rest.lines != 0) book_rest(*found, whole, rest);
  early.erase(found);
  return true;
}

bool is_early(std::uint64_t id) {
  return find_early(id) != passes().early.end();
}

// Copies the pass of another thread. Empty if that thread went on meanwhile: it closes its pass
// itself. It begins another pass only under the lock that the caller holds.
static std::optional<Entry> copy_resting(const Thread& thread) {
  std::uint64_t id = thread.open.id, calls = thread.calls;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Entry entry;
  fill_entry(thread, entry);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const volatile std::uint64_t &calls_now = thread.calls, &id_now = thread.open.id;
  if (calls_now != calls || id_now != id || thread.quiet != 0) return std::nullopt;
  return entry;
}

// A server answers with one token and waits: nothing follows the prompt. How much of a cache of
// latents it wrote is known only if something follows.
static void tell_lone_prompt(Entry& entry) {
  const Model& model = passes().models[entry.model];
  bool lone = entry.known == PassPhase::other && !model.trained && is_prompt(entry);
  if (!lone || entry.met_loss || entry.bytes.latent_written != 0) return;
  entry.known = PassPhase::prefill;
  tell_encoder(entry);
}

void book_resting(bool all) noexcept {
  Lock lock;
  for (Thread* each : passes().threads) {
    std::uint64_t id = each->open.id;
    bool there = is_early(id) || find_entry(id) != nullptr;
    if (id == 0 || there || each->pass != Pass::plain || each == &this_thread) continue;
    std::optional<Entry> entry = copy_resting(*each);
    if (!entry) continue;
    // The program stands still before the logits are made, or before the loss may be.
    const Model& model = passes().models[entry->model];
    bool amid = (entry->head_rows == 0 && model.makes_logits) || is_trained(model);
    if (!all && amid && !entry->packed.cached) continue;
    EarlyPass early{.id = id, .duration_ns = entry->duration_ns, .bytes = entry->bytes};
    tell_generation(*entry);
    tell_lone_prompt(*entry);
    bool told = entry->packed.cached || entry->known != PassPhase::other;
    if (!all && !told) continue;  // only what follows tells what it was for
    take_sums(*each, *entry);
    remember(*entry);
    if (entry->known != PassPhase::other) each->told = id;
    early.phase = phase_of(*entry);
    passes().early.push_back(early);
    book(*entry, early.phase);
  }
  for (Entry& each : entries_used()) {
    if (each.id != 0 && !each.open && !each.recorded) tell_lone_prompt(each);
  }
  settle_plain(0, false);
}

}  // namespace mfu::observer
