#include "record/record_passes.h"

#include <algorithm>
#include <cstring>

namespace mfu {

namespace {

void add_word(RegionWord& word, std::uint64_t more) {
  if (more == 0) return;
  word.store(word.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

void add_wide(RegionWord& carries, RegionWord& low, RegionWord& high, std::uint64_t more) {
  std::uint64_t before = low.load(std::memory_order_relaxed), sum = before + more;
  if (sum >= before) return low.store(sum, std::memory_order_release);
  std::uint64_t mark = carries.load(std::memory_order_relaxed);
  carries.store(mark + 1, std::memory_order_relaxed);
  high.store(high.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  low.store(sum, std::memory_order_release);
  carries.store(mark + 2, std::memory_order_release);
}

void add_value(RegionSpread& spread, std::uint64_t value, std::uint64_t times) {
  auto& count = spread.counts[RegionSpread::bucket_of(value)];
  count.store(count.load(std::memory_order_relaxed) + static_cast<std::uint32_t>(times),
              std::memory_order_relaxed);
}

// The place of a key, which is added if it is new. All keys that find no room share the last place.
template <std::size_t Size>
std::size_t place_of(std::array<std::atomic<std::uint32_t>, Size>& keys, std::uint32_t key,
                     std::uint32_t last_key) {
  for (std::size_t i = 0; i + 1 < Size; ++i) {
    std::uint32_t there = keys[i].load(std::memory_order_relaxed);
    if (there == key + 1) return i;
    if (there != 0) continue;
    keys[i].store(key + 1, std::memory_order_release);
    return i;
  }
  keys[Size - 1].store(last_key + 1, std::memory_order_release);
  return Size - 1;
}

constexpr std::uint32_t kOther = static_cast<std::uint32_t>(PassPhase::other);
constexpr std::uint32_t kOtherModel = kRegionModels - 1;

// Returns false if there was no room, so that it was added to the shared place.
bool add_flop(Region& region, const PassEnd& pass, const PassFlop& flop) {
  RegionPhases& phases = region.phases;
  std::uint32_t key = static_cast<std::uint32_t>(pass.phase) << 24 |
                      std::uint32_t{pass.model} << 16 | std::uint32_t{flop.device} << 8 | flop.type;
  std::uint32_t last = kOther << 24 | kOtherModel << 16 |
                       static_cast<std::uint32_t>(kRegionDevices - 1) << 8 |
                       static_cast<std::uint32_t>(kRegionTypes - 1);
  std::size_t place = place_of(phases.line_keys, key, last);
  RegionLine& line = phases.lines[place];
  add_word(line.calls, flop.calls);
  add_wide(phases.carries, line.hardware_low, line.hardware_high, flop.hardware_flop);
  add_wide(phases.carries, line.model_low, line.model_high, flop.model_flop);
  add_wide(phases.carries, line.recomputed_low, line.recomputed_high, flop.recomputed_flop);
  add_word(line.bytes, flop.bytes);
  return place + 1 < kRegionLines;
}

template <std::size_t Size>
void put_name(char (&to)[Size], std::string_view text) {
  std::size_t size = std::min(text.size(), Size - 1);
  std::memcpy(to, text.data(), size);
  to[size] = 0;
}

}  // namespace

unsigned PassBook::device_id(Region* region, std::string_view name, std::string_view identity) {
  auto same = [&](const Device& each) { return each.name == name; };
  auto found = std::find_if(devices_.begin(), devices_.end(), same);
  if (found == devices_.end()) {
    if (devices_.size() >= kRegionDevices - 1) return kRegionDevices - 1;
    found = devices_.insert(found, {std::string(name), {}});
  }
  if (!identity.empty()) found->identity = identity;
  if (region != nullptr) write_tables(*region);
  return static_cast<unsigned>(found - devices_.begin());
}

unsigned PassBook::add_model(Region* region) {
  if (models_.size() >= kRegionModels - 1) return kOtherModel;
  models_.emplace_back();
  if (region != nullptr) write_tables(*region);
  return static_cast<unsigned>(models_.size() - 1);
}

void PassBook::name_model(Region* region, unsigned model, std::string_view name) {
  if (model >= models_.size()) return;
  models_[model] = name;
  if (region != nullptr) write_tables(*region);
}

void PassBook::write_tables(Region& region) const {
  RegionPhases& phases = region.phases;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    put_name(phases.device[i].name, devices_[i].name);
    put_name(phases.device[i].identity, devices_[i].identity);
  }
  for (std::size_t i = 0; i < models_.size(); ++i) put_name(phases.model[i].name, models_[i]);
  phases.devices.store(static_cast<std::uint32_t>(devices_.size()), std::memory_order_release);
  phases.models.store(static_cast<std::uint32_t>(models_.size()), std::memory_order_release);
}

void PassBook::forget_numbers() {
  std::fill(std::begin(now_), std::end(now_), Mark{});
  std::fill(std::begin(mark_), std::end(mark_), Mark{});
}

std::size_t PassBook::pass_index(Region& region, std::uint32_t key) {
  return place_of(region.phases.pass_keys, key, kOther << 8 | kOtherModel);
}

void PassBook::add(Region& region, const PassEnd& pass) {
  std::uint32_t key = static_cast<std::uint32_t>(pass.phase) << 8 | pass.model;
  std::size_t index = pass_index(region, key);
  RegionPass& line = region.phases.passes[index];
  Mark& now = now_[index];
  for (const PassFlop& flop : pass.flop) {
    if (!add_flop(region, pass, flop)) pass_index(region, kOther << 8 | kOtherModel);
    now.hardware_flop += flop.hardware_flop;
    now.model_flop += flop.model_flop;
  }
  add_word(line.passes, pass.passes);
  add_word(line.tokens, pass.tokens);
  add_word(line.padded_tokens, pass.padded_tokens);
  add_word(line.samples, pass.samples);
  add_word(line.time_ns, pass.duration_ns);
  add_word(line.weight_read_bytes, pass.weight_read_bytes);
  add_word(line.cache_read_bytes, pass.cache_read_bytes);
  add_word(line.cache_written_bytes, pass.cache_written_bytes);
  if (pass.batch > line.largest_batch.load(std::memory_order_relaxed)) {
    line.largest_batch.store(pass.batch, std::memory_order_relaxed);
  }
  if (pass.passes != 0) {
    // A part of a pass has no time if its time is in another line.
    if (pass.duration_ns != 0) {
      add_value(line.durations_ns, pass.duration_ns / pass.passes, pass.passes);
    }
    if (pass.batch != 0) add_value(line.batches, pass.batch, pass.passes);
  }
  now.passes += pass.passes;
  now.tokens += pass.tokens;
  now.padded_tokens += pass.padded_tokens;
  now.time_ns += pass.duration_ns;
  now.moved_bytes += pass.weight_read_bytes + pass.cache_read_bytes + pass.cache_written_bytes;
  RegionHeader& header = region.header;
  add_word(header.tokens, pass.tokens);
  add_word(header.samples, pass.samples);
  if (pass.token_rows > header.token_rows.load(std::memory_order_relaxed)) {
    header.token_rows.store(pass.token_rows, std::memory_order_relaxed);
  }
}

void PassBook::add_time(Region& region, PassPhase phase, unsigned model,
                        std::uint64_t duration_ns) {
  if (duration_ns == 0) return;
  std::size_t index = pass_index(region, static_cast<std::uint32_t>(phase) << 8 | model);
  add_word(region.phases.passes[index].time_ns, duration_ns);
  now_[index].time_ns += duration_ns;
}

void PassBook::take(const Region& region, StepRecord& record) {
  for (std::size_t i = 0; i < kRegionPasses; ++i) {
    std::uint32_t key = region.phases.pass_keys[i].load(std::memory_order_relaxed);
    if (key == 0) continue;
    const Mark& now = now_[i];
    Mark& mark = mark_[i];
    StepPass pass{.key = static_cast<std::uint16_t>(key - 1),
                  .reserved = 0,
                  .passes = static_cast<std::uint32_t>(now.passes - mark.passes),
                  .hardware_flop = now.hardware_flop - mark.hardware_flop,
                  .model_flop = now.model_flop - mark.model_flop,
                  .tokens = now.tokens - mark.tokens,
                  .padded_tokens = now.padded_tokens - mark.padded_tokens,
                  .time_ns = now.time_ns - mark.time_ns};
    std::uint64_t moved = now.moved_bytes - mark.moved_bytes;
    mark = now;
    if (pass.passes == 0 && pass.time_ns == 0 && pass.hardware_flop == 0) continue;
    if (record.pass_kinds < kStepPasses) {
      record.moved_bytes[record.pass_kinds] = moved;
      record.passes[record.pass_kinds++] = pass;
      continue;
    }
    record.moved_bytes[kStepPasses - 1] = 0;
    StepPass& last = record.passes[kStepPasses - 1];
    last.key = static_cast<std::uint16_t>(kOther << 8 | kOtherModel);
    last.passes += pass.passes;
    last.hardware_flop += pass.hardware_flop;
    last.model_flop += pass.model_flop;
    last.tokens += pass.tokens;
    last.padded_tokens += pass.padded_tokens;
    last.time_ns += pass.time_ns;
  }
}

}  // namespace mfu
