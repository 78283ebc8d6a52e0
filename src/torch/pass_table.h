// The table of passes that nobody knows yet what they were for, and how they are booked once it is
// known. One lock guards all of it, and the models; it is taken where passes begin and end.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "record/recorder.h"
#include "torch/models.h"
#include "torch/pass_tokens.h"
#include "torch/passes.h"
#include "torch/thread.h"

namespace mfu::observer {

inline constexpr std::size_t kWaiting = 128;  // passes nobody knows yet what they were for
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

// A pass that is closed, or open and recorded.
struct Entry {
  std::uint64_t id = 0;                                         // 0: free
  std::uint64_t thread = 0, first_node = 0, last_node = ~0ull;  // [first, last)
  std::uint64_t step = 0;                                       // when it closed
  std::uint64_t passes = 1, duration_ns = 0;
  std::uint64_t queries = 0, keys = 0, cross_keys = 0;
  Tokens tokens;
  std::array<PassFlop, kPassFlops> flop{};
  std::uint32_t lines = 0;
  std::uint32_t model = 0;
  bool open = false, recorded = false, consumed = false;
  bool met_loss = false, fetched = false, first = false, evaluates = false;
  bool amid = false;
  PassPhase known = PassPhase::other;  // prefill and decode are known by their shapes
  PassBytes bytes;
  Packed packed;
  std::uint64_t head_flop = 0, head_rows = 0;  // of the product after the last block; 0: not known
};

struct Passes {
  std::array<Entry, kWaiting> entries;
  Models models;
  std::uint64_t next_id = 1, steps = 0;
  std::uint32_t trained_model = 0;  // whose pass a backward came back to last
  std::vector<Thread*> threads;
  bool updates = true;  // steps are told by updates of parameters: nothing else told of any yet
  ModelSeen seen = nullptr;
  OwnerAsked owner_asked = nullptr;
};

// All of them expect the lock to be held.
Passes& passes();
Entry* find_entry(std::uint64_t id);
Entry& free_entry();
// What the thread counted since it was asked last.
void take_sums(Thread& thread, Entry& entry);
void add_flop(Entry& entry, const PassFlop& flop);
void book(Entry& entry, PassPhase phase);
// A pass that decodes some sequences and prefills others, as its two parts (pass_split.cc). False:
// it is not one.
bool book_parts(const Entry& entry);
void book_consumed(Entry& entry);
// Whether its sequences are samples that were not counted before.
bool brings_samples(const Entry& entry, PassPhase phase);
// Products outside of any module, without grad, while a step is under way: a miner, a clipping, an
// optimizer by hand. They are training, but no pass of a model.
bool is_part_of_step(const Entry& entry);
// Of a pass that nothing comes back to.
PassPhase phase_of(const Entry& entry);
// Generation: a pass that brings what the one before it did and one token more, or one token to
// what is cached. Also the prompt before it is told then.
void tell_generation(Entry& entry);
void remember(const Entry& entry);
// What can be said by now. Passes of a model that was never trained may still turn out to be
// validation: they wait.
void settle_plain(std::uint64_t newest, bool everything);

}  // namespace mfu::observer
