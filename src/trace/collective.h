// Matches the collectives of several ranks: who came late, how long the others waited, and how fast
// the data then moved. Collectives end at the same time everywhere, so they also give the offsets
// between the ranks' clocks.
//
//   auto traces = mfu::read_trace_files({"run/"});
//   mfu::CollectiveMatch match = mfu::match_collectives(*traces);
//   for (const mfu::MatchedCollective& collective : match.collectives) {
//     std::cout << collective.name << ": late was " << (*traces)[collective.straggler].info.path;
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace mfu {

// What matching needs of a trace: its communicating device events, in order.
struct CommunicationEvent {
  std::uint32_t event = kNone;  // row of its device events
  std::uint32_t lane = 0;       // of Trace::lanes
  // texts of Communication; kNone: the group was not recorded
  std::uint32_t kind = 0, group = kNone;
  std::int64_t start_ns = 0, duration_ns = 0;
  std::optional<std::int64_t> elements;
};
struct Communication {
  std::vector<std::string> texts;
  std::vector<CommunicationEvent> events;
};
Communication communication_of(const Trace& trace);

// One rank's share of a collective. duration = wait + transfer.
struct CollectivePart {
  std::uint32_t trace = 0;         // which of the traces given
  std::uint32_t place = 0;         // of Communication::events
  std::uint32_t device_event = 0;  // row of its device events
  std::int64_t lateness_ns = 0;    // its start minus the first rank's start, on the common clock
  std::int64_t wait_ns = 0;        // until the last rank arrived
  std::int64_t transfer_ns = 0;
};

struct MatchedCollective {
  std::string name;   // "allreduce", "allgather", "reducescatter", "alltoall", "broadcast" …
  std::string group;  // process group, where recorded
  std::vector<CollectivePart> parts;
  std::uint32_t straggler = 0;        // which trace came last
  std::int64_t transfer_ns = 0;       // from the last start to the last end, on the common clock
  std::optional<std::int64_t> bytes;  // what a rank sends (all-gather: what it receives)
  // As nccl-tests define them. Empty if the bytes or the size of the group are unknown.
  std::optional<double> algorithm_bytes_per_s, bus_bytes_per_s;
};

struct RankClock {
  std::int64_t offset_ns = 0;  // its clock minus the first trace's
  // Half of the matched ends are within this of the offset. Empty if nothing matched; then the
  // offset is 0.
  std::optional<std::int64_t> spread_ns;
};

struct CollectiveMatch {
  std::vector<MatchedCollective> collectives;  // by start on the first rank that has it
  std::vector<RankClock> clocks;               // one per trace
  std::vector<Note> notes;                     // what could not be matched, and why
};

// Matches the k-th collective of a kind in one rank with the k-th in the others: by process group
// if all record it, by sequence number if they have one, and shifted if one rank's recording began
// later and the sizes show it. Deterministic: the order of the traces changes only their numbers.
CollectiveMatch match_collectives(std::span<const Trace> traces);
// The same for what was kept of traces. Bytes and rates are not known then.
CollectiveMatch match_communication(std::span<const Communication* const> traces);

// "allreduce" of "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "nccl:all_reduce" and "allreduce".
std::string collective_kind(std::string_view name);

}  // namespace mfu
