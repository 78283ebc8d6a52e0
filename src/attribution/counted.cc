#include "attribution/counted.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/secrets.h"

namespace mfu {

namespace {

struct Needed {
  double at_peak_ns = 0;        // time of everything that was counted, each type at its own peak
  UtilizationInput input;       // the same as input for MFU
  bool some_uncounted = false;  // some operators have FLOPs that nobody knows
};

Needed needed_by(const ProfiledWindow& counted, const PeakQuestion& question) {
  Needed needed;
  std::map<std::string, CountedFlop> by_type;
  for (const OperatorTotal& each : counted.operators) {
    needed.some_uncounted = needed.some_uncounted || !each.reason.empty();
    CountedFlop& sum = by_type[each.type];
    sum.model_flop += each.flop.model_flop;
    sum.hardware_flop += each.flop.hardware_flop;
  }
  for (const auto& [type, flop] : by_type) {
    if (flop.hardware_flop == FlopCount(0)) continue;
    ChosenPeak peak = choose_peak(question, type, {});
    needed.input.work.push_back({flop.model_flop, flop.hardware_flop, peak.rate});
    if (peak.rate) needed.at_peak_ns += ideal_seconds(flop.model_flop, *peak.rate) * 1e9;
  }
  return needed;
}

// Takes the share `of` a line in every step. Books `fast` of it at peak, and the rest below.
void move_line(RankAttribution& rank, LedgerLine from, double of, double fast) {
  auto move = [&](Ledger& ledger) {
    auto taken = static_cast<std::int64_t>(std::floor(of * static_cast<double>(ledger[from])));
    auto at_peak = static_cast<std::int64_t>(std::floor(fast * static_cast<double>(taken)));
    ledger[from] -= taken;
    ledger[LedgerLine::matmul_at_peak] += at_peak;
    ledger[LedgerLine::matmul_below_peak] += taken - at_peak;
  };
  if (rank.steps.empty()) {
    move(rank.ledger);
    return;
  }
  rank.ledger = {};
  for (StepLedger& step : rank.steps) {
    move(step.ledger);
    rank.ledger += step.ledger;
  }
}

}  // namespace

const ProfiledWindow* counted_window(const AttributionOptions& options, const std::string& path) {
  auto name = std::filesystem::path(path).filename();  // without the credentials in it
  for (const ProfiledWindow& each : options.counted) {
    if (std::filesystem::path(without_secrets(each.trace)).filename() == name) return &each;
  }
  return nullptr;
}

void use_counted(const ProfiledWindow& counted, const RankPart& part, Peaks& peaks,
                 RankAttribution& rank) {
  CountedFlop flop = counted.flop();
  if (flop.hardware_flop == FlopCount(0)) return;
  Needed needed = needed_by(counted, peaks.question());
  double known_ns = 0;
  for (const PartCall& call : part.calls) known_ns += peaks.ideal_ns(part, call).value_or(0);
  double missing_ns = std::max(0.0, needed.at_peak_ns - known_ns);
  double unknown_ns = static_cast<double>(rank.ledger[LedgerLine::matmul_flop_unknown]);
  if (rank.peak && unknown_ns > 0 && missing_ns > 0 && !needed.some_uncounted) {
    move_line(rank, LedgerLine::matmul_flop_unknown, 1, std::min(1.0, missing_ns / unknown_ns));
    missing_ns = std::max(0.0, missing_ns - unknown_ns);
  }
  double other_ns = static_cast<double>(rank.ledger[LedgerLine::other_kernels]);
  if (rank.cpu && missing_ns > 0.001 * static_cast<double>(rank.window.duration_ns()) &&
      other_ns > 0) {
    move_line(rank, LedgerLine::other_kernels, std::min(1.0, missing_ns / other_ns), 1);
  }
  rank.model_flop = flop.model_flop;
  rank.hardware_flop = flop.hardware_flop;
  needed.input.duration = std::chrono::nanoseconds(rank.window.duration_ns());
  Result<Utilization> used = utilization_of(needed.input);
  bool complete = used.has_value() && used->complete;
  rank.mfu = complete ? std::optional(used->mfu.value) : std::nullopt;
  rank.hfu = complete && used->hfu ? std::optional(used->hfu->value) : std::nullopt;
}

}  // namespace mfu
