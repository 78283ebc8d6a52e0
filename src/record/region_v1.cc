#include "record/region_v1.h"

#include <cstring>

namespace mfu::v1 {

namespace {

// Copies counters one by one, because the process that owns them may be counting.
template <class Word>
void copy_word(const Word& from, Word& to) {
  to.store(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void copy_header(const RegionHeader& from, mfu::RegionHeader& to) {
  to.magic = from.magic;
  to.version = mfu::kRegionVersion;
  to.region_bytes = sizeof(mfu::Region);
  to.pid = from.pid;
  to.parent_pid = from.parent_pid;
  to.process_start_ticks = from.process_start_ticks;
  to.start_monotonic_ns = from.start_monotonic_ns;
  to.start_realtime_ns = from.start_realtime_ns;
  std::memcpy(to.host, from.host, sizeof to.host);
  to.affinity = from.affinity;
  copy_word(from.rank, to.rank);
  copy_word(from.world_size, to.world_size);
  copy_word(from.local_rank, to.local_rank);
  copy_word(from.ended, to.ended);
  copy_word(from.operators, to.operators);
  copy_word(from.types, to.types);
  copy_word(from.fact_bytes, to.fact_bytes);
  copy_word(from.blocks, to.blocks);
  copy_word(from.tokens, to.tokens);
  copy_word(from.token_rows, to.token_rows);
  copy_word(from.samples, to.samples);
  copy_word(from.last_ns, to.last_ns);
  for (std::size_t i = 0; i < kRegionPhases; ++i) copy_word(from.phase_ns[i], to.phase_ns[i]);
  copy_word(from.step_head, to.step_head);
  copy_word(from.steps_dropped, to.steps_dropped);
  copy_word(from.step_tail, to.step_tail);
}

void copy_step(const StepRecord& from, mfu::StepRecord& to) {
  to = {};
  to.sequence = from.sequence;
  to.start_ns = from.start_ns;
  to.end_ns = from.end_ns;
  to.tokens = from.tokens;
  to.samples = from.samples;
  to.phase_ns = from.phase_ns;
  to.index = from.index;
  to.kind = from.kind;
  to.types = from.types;
  to.flop = from.flop;
}

}  // namespace

void copy_to(const Region& from, mfu::Region& to) {
  copy_header(from.header, to.header);
  to.operators = from.operators;
  to.types = from.types;
  for (std::size_t i = 0; i < kRegionCells; ++i) copy_word(from.keys[i], to.keys[i]);
  to.facts = from.facts;
  std::memcpy(static_cast<void*>(to.blocks.data()), from.blocks.data(), sizeof to.blocks);
  for (std::size_t i = 0; i < kRegionSteps; ++i) copy_step(from.steps[i], to.steps[i]);
}

}  // namespace mfu::v1
