// Applies rules to the ledger: what to change, what shows it, and how much it could win at most.
#pragma once

#include <vector>

#include "attribution/peaks.h"

namespace mfu {

struct Situation {
  const TraceOutline& trace;
  const RankPart& part;
  const RankAttribution& rank;
  const HostUse& host;  // used if the CPU is the device
  Peaks& peaks;
  bool several_ranks = false;
  bool peak_given = false;
  const ProfiledWindow* counted = nullptr;  // what the observer saw of the same steps
};

// Ranked and few. Empty if the run is good.
std::vector<Finding> findings_of(const Situation& situation);
// How much MFU would rise if `gain_ns` were saved, measured against today's peak and at most to
// 100%. Empty if MFU is unknown.
std::optional<double> mfu_gain(std::optional<double> mfu, std::int64_t window_ns,
                               std::int64_t gain_ns);
// Sorts by gain and keeps no more than a person reads.
void rank_and_cut(std::vector<Finding>& findings);
// Findings over all ranks. Each one shows the evidence of the rank that loses most.
std::vector<Finding> findings_of_all(const std::vector<RankAttribution>& ranks,
                                     std::optional<double> mfu);

}  // namespace mfu
