#include "attribution/peaks.h"

#include <algorithm>

#include "attribution/settled.h"

namespace mfu {

const ChosenPeak& Peaks::of(const PeakKey& key) {
  std::optional<ChosenPeak>& known =
      known_[2 * static_cast<std::size_t>(key.type) + (key.tf32 ? 1 : 0)];
  if (!known) {
    known =
        choose_peak(question_, name_of(key.type), {.matmul = key.tf32, .convolution = key.tf32});
  }
  return *known;
}

HostUse with_overhead(const RankPart& part, Peaks& peaks) {
  HostUse use = part.host;
  for (const SettledCall& call : part.host.calls) {
    double work_ns = peaks.ideal_ns(part, call).value_or(0) / kReachable;
    double left = std::max(0.0, static_cast<double>(call.own_ns) - work_ns);
    std::int64_t ns = std::min(static_cast<std::int64_t>(left), use.most_overhead_ns);
    (call.in_optimizer ? use.optimizer : use.others).overhead_ns += ns;
    use.all.overhead_ns += ns;
  }
  return use;
}

}  // namespace mfu
