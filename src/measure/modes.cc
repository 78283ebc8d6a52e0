#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/suggest.h"
#include "mfu/measure.h"

namespace mfu {

namespace {

constexpr std::array<std::string_view, 4> kSourceNames = {"estimated", "counted", "calibrated",
                                                          "hardware"};
constexpr std::array<std::string_view, 4> kModeNames = {"estimate", "profiler", "smart", "hybrid"};
constexpr std::array<std::string_view, 3> kPhaseNames = {"warmup", "main", "finetune"};

Result<std::size_t> named(std::string_view name, std::span<const std::string_view> names,
                          std::string_view what) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::vector<std::string> near = closest(name, {names.begin(), names.end()}, 1);
  return fail(ErrorCode::not_found,
              fmt::format("there is no {} '{}'{}: it is one of {}", what, name,
                          near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near[0]),
                          fmt::join(names, ", ")));
}

}  // namespace

std::string_view name_of(Source source) {
  return kSourceNames[static_cast<std::size_t>(source)];
}

std::string_view name_of(const Mode& mode) {
  return kModeNames[mode.index()];
}

Result<Mode> parse_mode(std::string_view name) {
  switch (MFU_TRY(named(name, kModeNames, "mode"))) {
    case 0:
      return Mode(EstimateMode{});
    case 1:
      return Mode(ProfilerMode{});
    case 2:
      return Mode(SmartMode{});
    default:
      return Mode(HybridMode{});
  }
}

std::string_view name_of(TrainingPhase phase) {
  return kPhaseNames[static_cast<std::size_t>(phase)];
}

Result<TrainingPhase> parse_training_phase(std::string_view name) {
  return static_cast<TrainingPhase>(MFU_TRY(named(name, kPhaseNames, "training phase")));
}

std::uint64_t Schedule::period(TrainingPhase phase) const {
  if (fixed) return *fixed;
  switch (phase) {
    case TrainingPhase::warmup:
      return warmup;
    case TrainingPhase::main:
      return main;
    case TrainingPhase::finetune:
      return finetune;
  }
  MFU_ASSERT(false);
}

bool Schedule::due(std::uint64_t step, TrainingPhase phase) const {
  std::uint64_t every = period(phase);
  return every != 0 && step % every == 0;
}

}  // namespace mfu
