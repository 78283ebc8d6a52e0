// Why the device had nothing to do. Each instant of a gap goes to one idle line, by what the thread
// that launched the next event was doing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "attribution/host_state.h"
#include "attribution/work.h"
#include "mfu/attribution.h"
#include "trace/trace.h"

namespace mfu {

// Sums over the gaps of a device that the ledger does not show.
struct IdleTally {
  // part of idle_launch: the host had just waited
  std::int64_t launch_after_synchronization_ns = 0;
  std::int64_t cpu_work_ns = 0;          // part of idle_launch: in operators of the CPU
  std::int64_t graph_unknown_ns = 0;     // of idle_unknown: after a graph launch, before its first
                                         // recorded kernel
  std::int64_t queued_unknown_ns = 0;    // of idle_unknown: launched long ago, not by a graph
  std::int64_t unlinked_unknown_ns = 0;  // of idle_unknown: the next event has no launch record
  // of idle_unknown: the launching thread was in nothing recorded
  std::int64_t unseen_unknown_ns = 0;
  // part of idle_launch: inside launch calls of a millisecond or more
  std::int64_t slow_call_ns = 0;
  std::uint64_t slow_calls = 0;
  std::uint64_t gaps = 0;
};

class IdleSplitter {
 public:
  // Charges [from, to) to a line. Calls come in order of time.
  using Charge = std::function<void(std::int64_t from_ns, std::int64_t to_ns, LedgerLine line)>;

  // `states` must belong to `trace`.
  IdleSplitter(const Trace& trace, const Works& works, const AttributionOptions& options, bool cpu,
               HostStates& states, Charge charge);

  // Splits the gap that ends where works.spans[next] starts. kNone: nothing follows.
  void split(std::int64_t from_ns, std::int64_t to_ns, std::uint32_t next);

  const IdleTally& tally() const { return tally_; }
  std::vector<IdleLine> lines() const;  // longest first
  std::vector<Gap> gaps() const;        // longest first

 private:
  struct Next {  // the event that ended the gap, as far as it is known
    std::uint32_t thread = kNone, host = kNone, launch = kNone;
    bool graph = false;
  };
  struct LineKey {
    LedgerLine cause;
    std::uint32_t what, code;  // texts
    bool cpu_work = false;
    auto operator<=>(const LineKey&) const = default;
  };
  struct LineSum {
    std::uint64_t gaps = 0;
    std::int64_t duration_ns = 0;
  };
  struct Kept {  // a long gap; its names are looked up at the end
    std::int64_t start_ns, end_ns;
    Ledger ledger;
    std::uint32_t next, host;
    const char* reason;
  };

  Next next_of(std::uint32_t span);
  void host_part(std::int64_t from_ns, std::int64_t to_ns, const Next& next);
  void unseen_part(std::int64_t from_ns, std::int64_t to_ns, const Next& next);
  void add(std::int64_t from_ns, std::int64_t to_ns, LedgerLine line, std::uint32_t what,
           std::uint32_t code_row, bool cpu_work = false);
  void unknown(std::int64_t from_ns, std::int64_t to_ns, std::int64_t& of, const char* reason);
  void keep(std::int64_t from_ns, std::int64_t to_ns, std::uint32_t next, std::uint32_t host);

  const Trace& trace_;
  const Works& works_;
  const AttributionOptions& options_;
  bool cpu_;
  Charge charge_;
  HostStates& states_;
  IdleTally tally_;
  std::map<LineKey, LineSum> sums_;
  std::vector<Kept> kept_;
  bool has_python_ = false;
  // The gap that is being split.
  Ledger gap_;
  const char* reason_ = nullptr;
  bool after_wait_ = false;
  std::int64_t gap_start_ns_ = 0, gap_end_ns_ = 0;
};

// The innermost Python frame of the user's own code around a host event, as a text. kNone if none
// was recorded.
std::uint32_t user_frame(const Trace& trace, std::uint32_t host);

}  // namespace mfu
