// From one finished operator to the counters: which pass it was part of, whether checkpointing ran
// it again, how many samples and tokens went in. Everything here is called from inside an operator
// of the training loop: nothing throws, locks or allocates after a thread's first call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mfu/observer.h"
#include "torch/thread.h"

namespace mfu::observer {

// One call of an operator, as counted.
struct Call {
  unsigned operator_id = 0;
  unsigned type_id = 0;
  std::uint64_t hardware_flop = 0;
  std::uint64_t model_flop = 0;
  std::uint64_t bytes = 0;
  std::int64_t leading = 0;  // size of the first dimension of its input: samples, where nothing
                             // better says
};
void count_call(Thread& thread, const Call& call) noexcept;

// The same for a compiled graph: many calls at once, some of which the graph itself runs again.
struct Many {
  std::uint64_t calls = 1;
  std::uint64_t recomputed_flop = 0;
};
void count_graph(Thread& thread, const Call& call, const Many& many) noexcept;

// Lookups in an embedding table.
struct Lookup {
  std::uint64_t rows = 0;     // of the table
  std::uint64_t tokens = 0;   // indices
  std::uint64_t samples = 0;  // their leading dimension
};
void count_lookup(Thread& thread, const Lookup& lookup) noexcept;

// An operator whose FLOPs are not known; `operator_id` carries the reason.
void count_unknown(Thread& thread, unsigned operator_id) noexcept;

// Numbers of names, the same in every process of a run.
unsigned operator_id(std::string_view name, std::string_view reason = {});
unsigned type_id(std::string_view name);

// A backward with create_graph is under way in some thread; told by the Python glue.
void change_create_graph(int change) noexcept;

// The next forward operator begins a new pass: a batch was fetched, a step ended.
void begin_epoch() noexcept;
// Ends the pass of this thread: its samples are booked, its time as a validation pass too.
void end_pass(Thread& thread) noexcept;
// Books the samples of the pass under way, for a reader.
void book_samples(Thread& thread) noexcept;

std::uint64_t now_ns() noexcept;  // CLOCK_MONOTONIC

}  // namespace mfu::observer
