// The table of passes whose purpose is not known yet, and how they are booked once it is. One lock
// guards the table and the models. It is taken where passes begin and end.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "record/recorder.h"
#include "torch/models.h"
#include "torch/pass_tokens.h"
#include "torch/passes.h"
#include "torch/thread.h"

namespace mfu::observer {

inline constexpr std::size_t kWaiting = 128;  // passes whose purpose is not known yet
inline constexpr std::size_t kPassFlops = 8;  // pairs (device, type) of one pass

class Lock {
 public:
  Lock() {
    while (held.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  ~Lock() { held.store(false, std::memory_order_release); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  static inline constinit std::atomic<bool> held{false};
};

// A pass that is closed, or that is open and recorded by autograd.
struct Entry {
  std::uint64_t id = 0;                                         // 0 if this entry is free
  std::uint64_t thread = 0, first_node = 0, last_node = ~0ull;  // autograd nodes [first, last)
  std::uint64_t step = 0;                                       // the step in which it closed
  std::uint64_t epoch = 0;                                      // in which it ran (count.h)
  std::uint64_t told_before = 0;  // the thread's last pass that was told to be generation
  std::uint64_t passes = 1, duration_ns = 0;
  std::uint64_t queries = 0, keys = 0, cross_keys = 0;
  Tokens tokens;
  std::array<PassFlop, kPassFlops> flop{};
  std::uint32_t lines = 0;
  std::uint32_t model = 0;
  bool open = false, recorded = false, consumed = false;
  bool met_loss = false, fetched = false, first = false, evaluates = false;
  bool amid = false;
  bool looked = false;                 // it began with a lookup, or had one
  PassPhase known = PassPhase::other;  // prefill and decode are recognised by their shapes
  PassBytes bytes;
  Packed packed;
  // of the product after the last block; 0 if not known
  std::uint64_t head_flop = 0, head_rows = 0;
};

// A pass that is still open, but was already booked because nothing ran any more.
struct EarlyPass {
  std::uint64_t id = 0;
  PassPhase phase = PassPhase::other;
  std::uint64_t duration_ns = 0;
  PassBytes bytes;  // what it had moved by then
};

struct Passes {
  std::array<Entry, kWaiting> entries;
  std::size_t used = 0;  // entries after these are free; usually one or two are in use
  Models models;
  std::uint64_t next_id = 1, steps = 0;
  std::uint32_t trained_model = 0;  // the model whose pass a backward last used
  std::vector<Thread*> threads;
  std::vector<EarlyPass> early;
  // steps are recognised by updates of parameters, because nothing else told of any yet
  bool updates = true;
  ModelSeen seen = nullptr;
  OwnerAsked owner_asked = nullptr;
};

// The caller of all these functions holds the lock.
Passes& passes();
std::span<Entry> entries_used();
Entry* find_entry(std::uint64_t id);
Entry& free_entry();
// Takes what the thread counted since the last call.
// What is known about the open pass of that thread.
void fill_entry(const Thread& thread, Entry& entry);
bool is_early(std::uint64_t id);
// True if the open pass was booked by book_resting(). What was counted since is added to it.
bool close_early(Thread& thread);
void take_sums(Thread& thread, Entry& entry);
void add_flop(Entry& entry, const PassFlop& flop);
void book(Entry& entry, PassPhase phase);
// Books a pass that decodes some sequences and prefills others as its two parts (pass_split.cc).
// False if it is no such pass.
bool book_parts(const Entry& entry);
void book_consumed(Entry& entry);
// Whether its sequences are samples that were not counted before.
bool brings_samples(const Entry& entry, PassPhase phase);
// Products outside any module, without grad, while a step is under way: a miner, gradient clipping,
// an optimizer written by hand. They are training, but no pass of a model.
bool is_part_of_step(const Entry& entry);
// The phase of a pass that no backward used.
PassPhase phase_of(const Entry& entry);
// Recognises generation: the pass brings what the one before it brought plus one token, or one
// token to a cache. The prompt before it is then recognised too.
void tell_generation(Entry& entry);
void remember(const Entry& entry);
// Books what can be decided by now: prefill and decode at once, because a process may be killed at
// any time. Passes of a model that was never trained may still turn out to be validation, so they
// wait.
void settle_plain(std::uint64_t newest, bool everything);

}  // namespace mfu::observer
