#include "record/codec.h"

#include <algorithm>
#include <cstring>

#include "record/frames.h"
#include "record/region_sum.h"

namespace mfu {

namespace {

constexpr std::size_t kStepsAFrame = 256;

// A name in a table. In a damaged region it may not end with a 0.
template <std::size_t Size>
std::string_view text_of(const char (&text)[Size]) {
  return {text, strnlen(text, Size)};
}

std::string_view type_name(const Region& region, std::size_t type) {
  const auto& name = region.types[std::min(type, kRegionTypes - 1)];
  return {name.data(), strnlen(name.data(), name.size())};
}

void put_rank(Encoder& encoder, const std::atomic<std::int32_t>& number) {
  encoder.count(static_cast<std::uint64_t>(std::max(number.load(), -1) + std::int64_t{1}));
}

void put_wide(Encoder& encoder, Uint128 wide) {
  encoder.count(static_cast<std::uint64_t>(wide >> 64)).count(static_cast<std::uint64_t>(wide));
}

std::int64_t difference(std::uint64_t more, std::uint64_t less) {
  return static_cast<std::int64_t>(more - less);
}

void put_step(Encoder& encoder, const StepRecord& step, const StepRecord& last) {
  encoder.number(difference(step.sequence, last.sequence));
  encoder.number(difference(step.start_ns, last.end_ns));
  encoder.number(difference(step.end_ns, step.start_ns));
  encoder.number(difference(step.index, step.sequence));
  encoder.count(static_cast<std::uint64_t>(step.kind)).count(step.tokens).count(step.samples);
  for (std::uint64_t duration : step.phase_ns) encoder.count(duration);
  std::size_t types = std::min<std::size_t>(step.types, kStepTypes);
  encoder.count(types);
  for (std::size_t i = 0; i < types; ++i) {
    const StepFlop& flop = step.flop[i];
    encoder.count(flop.type).count(flop.hardware_flop).count(flop.model_flop);
    encoder.count(flop.recomputed_flop);
  }
  std::size_t kinds = std::min<std::size_t>(step.pass_kinds, kStepPasses);
  encoder.count(step.profiled).count(kinds);
  for (std::size_t i = 0; i < kinds; ++i) {
    const StepPass& pass = step.passes[i];
    encoder.count(pass.key).count(pass.passes).count(pass.tokens).count(pass.padded_tokens);
    encoder.count(pass.hardware_flop).count(pass.model_flop).count(pass.time_ns);
    encoder.count(step.moved_bytes[i]);
  }
  encoder.count(kHostLines);
  for (std::uint64_t duration : step.host_ns) encoder.count(duration);
}

void put_spread(Encoder& encoder, const RegionSpread& spread) {
  std::size_t used = 0;
  for (const auto& count : spread.counts) used += count.load(std::memory_order_relaxed) != 0;
  encoder.count(used);
  for (std::size_t i = 0; i < RegionSpread::kBuckets && used != 0; ++i) {
    std::uint32_t count = spread.counts[i].load(std::memory_order_relaxed);
    if (count == 0) continue;
    encoder.count(RegionSpread::value_of(i)).count(count);
    // write no more than the number that was written before, even if another one was added
    // meanwhile
    --used;
  }
  for (; used != 0; --used) encoder.count(0).count(0);
}

void put_line(Encoder& encoder, const Region& region, std::uint32_t key, const RegionLine& line) {
  auto device = std::min<std::size_t>(key >> 8 & 0xFF, kRegionDevices - 1);
  encoder.text(text_of(region.phases.device[device].name));
  encoder.text(text_of(region.phases.device[device].identity));
  encoder.text(type_name(region, key & 0xFF)).count(line.calls.load(std::memory_order_relaxed));
  auto wide = [&](const RegionWord& low, const RegionWord& high) {
    put_wide(encoder, wide_sum(region.phases.carries, low, high));
  };
  wide(line.hardware_low, line.hardware_high);
  wide(line.model_low, line.model_high);
  wide(line.recomputed_low, line.recomputed_high);
  encoder.count(line.bytes.load(std::memory_order_relaxed));
}

}  // namespace

std::string process_payload(const RegionHeader& header) {
  Encoder encoder;
  encoder.text(text_of(header.host)).count(header.pid).count(header.parent_pid);
  encoder.count(header.process_start_ticks);
  encoder.count(header.start_monotonic_ns).count(header.start_realtime_ns);
  encoder.count(header.affinity.size());
  for (std::uint64_t word : header.affinity) encoder.count(word);
  encoder.text(text_of(header.run)).count(header.attempt);
  return encoder.bytes();
}

std::string status_payload(const RegionHeader& header) {
  Encoder encoder;
  put_rank(encoder, header.rank);
  put_rank(encoder, header.world_size);
  put_rank(encoder, header.local_rank);
  encoder.count(header.ended.load(std::memory_order_acquire) != 0 ? 1 : 0);
  encoder.count(header.last_ns.load(std::memory_order_relaxed));
  encoder.count(header.token_rows.load(std::memory_order_relaxed));
  encoder.count(header.tokens.load(std::memory_order_relaxed));
  encoder.count(header.samples.load(std::memory_order_relaxed));
  encoder.count(header.steps_dropped.load(std::memory_order_relaxed));
  encoder.count(kRegionPhases);
  for (const RegionWord& word : header.phase_ns) {
    encoder.count(word.load(std::memory_order_relaxed));
  }
  encoder.count(kHostLines);
  for (const RegionWord& word : header.host_ns) encoder.count(word.load(std::memory_order_relaxed));
  encoder.count(header.collectives.load(std::memory_order_relaxed));
  encoder.count(header.collective_bytes.load(std::memory_order_relaxed));
  return encoder.bytes();
}

std::string phases_payload(const Region& region) {
  const RegionPhases& phases = region.phases;
  Encoder encoder;
  for (std::size_t i = 0; i < kRegionPasses; ++i) {
    std::uint32_t key = phases.pass_keys[i].load(std::memory_order_acquire);
    if (key == 0) continue;
    --key;
    std::uint32_t phase = key >> 8 & 0xFF, model = key & 0xFF;
    const RegionPass& pass = phases.passes[i];
    encoder.count(phase).count(model);
    std::size_t named = std::min<std::size_t>(model & ~kMixed, kRegionModels - 1);
    encoder.text(text_of(phases.model[named].name));
    for (const RegionWord* word : {&pass.passes, &pass.tokens, &pass.padded_tokens, &pass.samples,
                                   &pass.time_ns, &pass.weight_read_bytes, &pass.cache_read_bytes,
                                   &pass.cache_written_bytes, &pass.largest_batch}) {
      encoder.count(word->load(std::memory_order_relaxed));
    }
    put_spread(encoder, pass.durations_ns);
    put_spread(encoder, pass.batches);
    std::vector<std::size_t> lines;
    for (std::size_t each = 0; each < kRegionLines; ++each) {
      std::uint32_t line = phases.line_keys[each].load(std::memory_order_acquire);
      if (line != 0 && ((line - 1) >> 24 & 0xFF) == phase && ((line - 1) >> 16 & 0xFF) == model) {
        lines.push_back(each);
      }
    }
    encoder.count(lines.size());
    for (std::size_t each : lines) {
      put_line(encoder, region, phases.line_keys[each].load(std::memory_order_relaxed) - 1,
               phases.lines[each]);
    }
  }
  return encoder.bytes();
}

// Sums since the process began. A reader subtracts them, so a drainer that is started again repeats
// nothing.
std::string window_payload(const Region& region, std::uint64_t start_ns, std::uint64_t end_ns) {
  const RegionPhases& phases = region.phases;
  Encoder encoder;
  encoder.count(start_ns).count(end_ns);
  for (std::size_t i = 0; i < kRegionPasses; ++i) {
    std::uint32_t key = phases.pass_keys[i].load(std::memory_order_acquire);
    if (key == 0) continue;
    --key;
    const RegionPass& pass = phases.passes[i];
    encoder.count(key);
    for (const RegionWord* word :
         {&pass.passes, &pass.tokens, &pass.padded_tokens, &pass.time_ns}) {
      encoder.count(word->load(std::memory_order_relaxed));
    }
    encoder.count(pass.weight_read_bytes.load(std::memory_order_relaxed) +
                  pass.cache_read_bytes.load(std::memory_order_relaxed) +
                  pass.cache_written_bytes.load(std::memory_order_relaxed));
    Uint128 hardware = 0, model = 0;
    for (std::size_t each = 0; each < kRegionLines; ++each) {
      std::uint32_t line = phases.line_keys[each].load(std::memory_order_acquire);
      if (line == 0 || (line - 1) >> 16 != key) continue;
      const RegionLine& flop = phases.lines[each];
      hardware += wide_sum(phases.carries, flop.hardware_low, flop.hardware_high);
      model += wide_sum(phases.carries, flop.model_low, flop.model_high);
    }
    put_wide(encoder, hardware);
    put_wide(encoder, model);
  }
  return encoder.bytes();
}

std::string totals_payload(const Region& region) {
  Encoder encoder;
  for (const CellSum& sum : sum_cells(region)) {
    const RegionOperator& named = region.operators[sum.operator_id];
    encoder.text(text_of(named.name)).text(text_of(named.reason));
    encoder.text(type_name(region, sum.type_id)).count(sum.calls);
    put_wide(encoder, sum.hardware_flop);
    put_wide(encoder, sum.model_flop);
    put_wide(encoder, sum.recomputed_flop);
    encoder.count(sum.bytes);
  }
  return encoder.bytes();
}

std::string facts_payload(const Region& region) {
  std::size_t size = region.header.fact_bytes.load(std::memory_order_acquire);
  return {region.facts.data(), std::min(size, region.facts.size())};
}

void append_steps(std::string& frames, const Region& region, std::uint64_t from, std::uint64_t to) {
  while (from < to) {
    std::uint64_t end = std::min(to, from + kStepsAFrame);
    Encoder encoder;
    encoder.count(kRegionTypes);
    for (std::size_t type = 0; type < kRegionTypes; ++type) encoder.text(type_name(region, type));
    encoder.count(end - from);
    StepRecord last{};
    for (; from < end; ++from) {
      const StepRecord& step = region.steps[from % kRegionSteps];
      put_step(encoder, step, last);
      last = step;
    }
    append_frame(frames, FrameKind::steps_with_passes, encoder.bytes());
  }
}

std::string frames_of(const Region& region) {
  std::string frames;
  append_frame(frames, FrameKind::process, process_payload(region.header));
  std::uint64_t head = region.header.step_head.load(std::memory_order_acquire);
  std::uint64_t tail = region.header.step_tail.load(std::memory_order_acquire);
  // A damaged region may hold any number, but a ring holds no more than this many.
  if (head >= tail && head - tail <= kRegionSteps) append_steps(frames, region, tail, head);
  append_frame(frames, FrameKind::totals, totals_payload(region));
  append_frame(frames, FrameKind::phases, phases_payload(region));
  append_frame(frames, FrameKind::facts, facts_payload(region));
  append_frame(frames, FrameKind::status, status_payload(region.header));
  return frames;
}

}  // namespace mfu
