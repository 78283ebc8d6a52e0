// The C ABI's reading of phases.
#include <algorithm>

#include "mfu/observer.h"
#include "record/recorder.h"
#include "record/region_sum.h"
#include "torch/passes.h"

namespace {

constexpr const char* kPhaseNames[mfu::kPassPhases] = {"train",  "validation", "prefill",
                                                       "decode", "forward",    "other"};

void add_lines(const mfu::RegionPhases& phases, std::uint32_t key, mfu_observer_phase& to) {
  mfu::Uint128 model = 0, hardware = 0;
  for (std::size_t i = 0; i < mfu::kRegionLines; ++i) {
    std::uint32_t line = phases.line_keys[i].load(std::memory_order_acquire);
    if (line == 0 || (line - 1) >> 16 != key) continue;
    const mfu::RegionLine& each = phases.lines[i];
    model += mfu::wide_sum(phases.carries, each.model_low, each.model_high);
    hardware += mfu::wide_sum(phases.carries, each.hardware_low, each.hardware_high);
  }
  to.model_flop_low = static_cast<std::uint64_t>(model);
  to.model_flop_high = static_cast<std::uint64_t>(model >> 64);
  to.hardware_flop_low = static_cast<std::uint64_t>(hardware);
  to.hardware_flop_high = static_cast<std::uint64_t>(hardware >> 64);
}

}  // namespace

size_t mfu_observer_read_phases(int settle, struct mfu_observer_phase* phases, size_t capacity) {
  using namespace mfu;
  if (settle != 0) {
    observer::settle_passes(observer::this_thread, true);
    observer::begin_epoch();
  }
  const Region* region = Recorder::process().region();
  if (region == nullptr) return 0;
  size_t count = 0;
  for (std::size_t i = 0; i < kRegionPasses; ++i) {
    std::uint32_t key = region->phases.pass_keys[i].load(std::memory_order_acquire);
    if (key == 0) continue;
    --key;
    if (count++ >= capacity) continue;
    const RegionPass& pass = region->phases.passes[i];
    mfu_observer_phase& to = phases[count - 1];
    to = {};
    to.phase = kPhaseNames[std::min<std::size_t>(key >> 8, kPassPhases - 1)];
    std::size_t model = key & 0xFF & ~std::size_t{kMixed};
    to.model = region->phases.model[std::min<std::size_t>(model, kRegionModels - 1)].name;
    to.model_number = key & 0xFF;
    to.passes = pass.passes.load();
    to.tokens = pass.tokens.load();
    to.padded_tokens = pass.padded_tokens.load();
    to.samples = pass.samples.load();
    to.time_ns = pass.time_ns.load();
    to.weight_read_bytes = pass.weight_read_bytes.load();
    to.cache_read_bytes = pass.cache_read_bytes.load();
    to.cache_written_bytes = pass.cache_written_bytes.load();
    add_lines(region->phases, key, to);
  }
  return count;
}
