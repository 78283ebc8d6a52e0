// The peaks that the matmuls of a rank are compared with. Each is looked up once.
#pragma once

#include <array>
#include <optional>

#include "attribution/part.h"

namespace mfu {

class Peaks {
 public:
  explicit Peaks(const PeakQuestion& question) : question_(question) {}

  const PeakQuestion& question() const { return question_; }
  const ChosenPeak& of(const PeakKey& key);
  template <typename Call>
  const ChosenPeak& of(const RankPart& part, const Call& call) {
    return of(PeakKey{part.costs[call.cost].type, call.tf32});
  }
  // How long the part of a call inside the window would take at peak, in ns. Empty without a peak.
  template <typename Call>
  std::optional<double> ideal_ns(const RankPart& part, const Call& call) {
    const ChosenPeak& peak = of(part, call);
    if (!peak.rate) return std::nullopt;
    return ideal_seconds(part.costs[call.cost].model_flop, *peak.rate) * call.inside * 1e9;
  }

 private:
  PeakQuestion question_;
  std::array<std::optional<ChosenPeak>, 2 * kElementTypeCount> known_;
};

// The part's own use, plus the overhead of calls whose FLOPs are known.
HostUse with_overhead(const RankPart& part, Peaks& peaks);

}  // namespace mfu
