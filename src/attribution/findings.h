// Rules over the ledger: what to change, what shows it, and the most it could win.
#pragma once

#include <vector>

#include "attribution/peaks.h"

namespace mfu {

struct Situation {
  const TraceOutline& trace;
  const RankPart& part;
  const RankAttribution& rank;
  const HostUse& host;  // where the CPU is the device
  Peaks& peaks;
  bool several_ranks = false;
  bool peak_given = false;
  const ProfiledWindow* counted = nullptr;  // what the observer saw of the same steps
};

// Ranked, few, none where it is good.
std::vector<Finding> findings_of(const Situation& situation);
// MFU that `gain_ns` less would win; none where MFU is unknown.
std::optional<double> mfu_gain(std::optional<double> mfu, std::int64_t window_ns,
                               std::int64_t gain_ns);
// Best first, and no more than a person reads.
void rank_and_cut(std::vector<Finding>& findings);
// Of all ranks together, each finding with what the rank that loses most by it shows.
std::vector<Finding> findings_of_all(const std::vector<RankAttribution>& ranks,
                                     std::optional<double> mfu);

}  // namespace mfu
