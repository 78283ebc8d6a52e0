// Says where the time went. Each nanosecond of a device in the window belongs to exactly one line
// of a ledger, so the lines add up to the window. Findings are rules that read the ledger and say
// what to change. docs/ledger.md has the rules, with a drawn example.
//
//   mfu::Traces traces = MFU_TRY(mfu::read_traces({"rank0.json.gz", "rank1.json.gz"}));
//   auto found = MFU_TRY(mfu::attribute(traces, {.catalog = &mfu::Catalog::builtin()}));
//   for (const mfu::RankAttribution& rank : found.ranks) {
//     std::printf("%ld ns waiting for data\n", rank.ledger[mfu::LedgerLine::idle_data]);
//     if (rank.mfu) std::printf("MFU %g\n", *rank.mfu);  // none if no matmul has known FLOPs
//   }
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mfu/hardware.h"
#include "mfu/record.h"
#include "mfu/result.h"
#include "mfu/trace.h"
#include "mfu/units.h"

namespace mfu {

// The lines, in the order in which reports show them. Exposed means that no kernel computed then.
enum class LedgerLine : std::uint8_t {
  matmul_at_peak,       // time that the useful matmuls would have taken at the device's peak
  matmul_below_peak,    // the rest of the time that they took
  matmul_flop_unknown,  // matmul kernels without shapes, or without a peak to compare with
  recomputation,        // kernels that activation checkpointing ran again
  other_kernels,
  exposed_communication_wait,  // waiting for another rank; known only with traces of several ranks
  exposed_communication_transfer,
  exposed_copy,
  idle_data,             // the host thread that launched the next event was in the data loader
  idle_launch,           // that thread was busy and launched too late to keep the device busy
  idle_synchronization,  // that thread waited in a synchronisation
  idle_unknown
};
inline constexpr std::size_t kLedgerLineCount = 12;
std::string_view name_of(LedgerLine line);

class Ledger {
 public:
  std::int64_t& operator[](LedgerLine line) { return ns_[static_cast<std::size_t>(line)]; }
  std::int64_t operator[](LedgerLine line) const { return ns_[static_cast<std::size_t>(line)]; }
  std::int64_t total_ns() const;
  std::int64_t idle_ns() const;
  std::int64_t matmul_ns() const;  // the three matmul lines together
  Ledger& operator+=(const Ledger& other);
  bool operator==(const Ledger&) const = default;

 private:
  std::array<std::int64_t, kLedgerLineCount> ns_{};
};

// Times of a device with all its streams put together: overlapping time counts once.
struct Intervals {
  std::int64_t busy_ns = 0, idle_ns = 0, compute_ns = 0, communication_ns = 0;
  std::int64_t exposed_communication_ns = 0, copy_ns = 0, exposed_copy_ns = 0;
};

struct StepLedger {  // from its first device event to the next step's first one
  std::int64_t number = 0, start_ns = 0, end_ns = 0;
  Ledger ledger;
  FlopCount model_flop;
};

struct OperatorLine {  // calls of one operator with the same arguments
  std::string name, shapes, dtype;
  std::uint64_t calls = 0, recomputed_calls = 0;
  std::optional<FlopCount> flop;          // executed by all calls; none if not known
  std::optional<std::uint64_t> bytes;     // read and written by all calls, each operand once
  std::int64_t duration_ns = 0;           // Σ of its kernels; overlapping time counts twice
  std::optional<FlopRate> rate, peak;     // peak of its data type
  std::optional<Fraction> peak_fraction;  // above 1 means that the inputs contradict each other
  std::string code;                       // "train.py(53): forward", if stacks were recorded
};

struct KernelLine {
  std::string name, kind;  // matmul, compute, communication, memcpy, memset
  std::uint64_t calls = 0;
  std::int64_t duration_ns = 0;
};

struct UncountedLine {
  std::string name, reason;
  std::uint64_t calls = 0;
  std::int64_t duration_ns = 0;
};

struct IdleLine {  // idle time of one cause
  LedgerLine cause = LedgerLine::idle_unknown;
  std::string what, code;  // `what`: what the host was in, or what it launched next
  std::uint64_t gaps = 0;
  std::int64_t duration_ns = 0;
  bool cpu_work = false;  // `what` is an operator that ran on the CPU and launched nothing
};

struct Gap {  // a time in which nothing ran on the device
  std::int64_t start_ns = 0, end_ns = 0;
  Ledger ledger;       // its time by cause: only idle lines are used
  std::string next;    // kernel or copy that ended it; empty if there was none
  std::string host;    // operator that launched `next`
  std::string reason;  // why part of it is idle_unknown; empty if none is
};

struct LaneSpan {  // one or several neighbouring events of a lane
  std::int64_t start_ns = 0, end_ns = 0;
  LedgerLine line = LedgerLine::other_kernels;
  std::uint32_t name = 0;    // index into LaneTimeline::names
  std::uint32_t events = 1;  // number of events joined in it
};
struct LaneTimeline {
  std::string label;  // "stream 7", "host thread 25556"
  std::vector<std::string> names;
  std::vector<LaneSpan> spans;
};

struct AttributionCoverage {
  std::uint64_t gpu_events = 0, clipped_events = 0, skipped_events = 0;
  // Shares of the summed device time: with a launch record, with shapes, launched by a graph.
  std::optional<double> linked_fraction, with_shapes_fraction, graph_launched_fraction;
  std::vector<UncountedLine> uncounted;
};

enum class Cause : std::uint8_t {
  data_loading,
  cpu_preprocessing,
  kernel_launch,
  synchronization,
  communication,
  copies,
  recomputation,
  precision,
  implementation,
  threads,
  optimizer,
  validation,
  generation,
  straggler,
  host,
  unknown
};
std::string_view name_of(Cause cause);

// Something to change, found in a trace or in a run. finding_words() in mfu/sink.h makes sentences
// of it.
struct Finding {
  std::string code;  // "data_loading"
  Cause cause = Cause::implementation;
  NoteValues values{};  // "fraction" is the share of the time that "of" names
  std::vector<Note> evidence{};
  std::vector<std::string> fixes{};  // codes, the best first
  // The most that could be won: if the cause went away and nothing took its place.
  std::optional<double> gain_ceiling_mfu{};
  std::int64_t gain_ceiling_ns = 0;
};

struct RankAttribution {  // one device of one file
  std::string path;
  std::optional<std::int64_t> rank;
  std::int64_t device_id = 0;
  std::string device_name;  // as in the trace; "CPU" for the CPU
  std::optional<Device> device;
  bool cpu = false;                       // the CPU is the device, as there are no device events
  std::optional<ProfiledWindow> counted;  // what the observer counted in the same steps
  std::optional<FlopRate> peak;
  std::optional<Precision> precision;  // the type of most FLOPs
  std::string peak_source;
  Window window;
  Intervals intervals;
  Ledger ledger;
  std::optional<FlopCount> model_flop, hardware_flop;
  std::optional<double> mfu, hfu;
  std::int64_t communication_wait_ns = 0;  // in matched collectives, exposed or not
  std::vector<StepLedger> steps;
  std::vector<OperatorLine> operators;  // those that have FLOPs, the longest first
  std::vector<KernelLine> kernels;      // the longest first
  std::vector<IdleLine> idle;           // the longest first
  std::vector<Gap> gaps;                // the longest ones
  std::vector<LaneTimeline> timeline;   // only if asked for
  AttributionCoverage coverage;
  std::vector<Finding> findings;
  std::vector<Note> notes;
};

struct Attribution {
  std::vector<RankAttribution> ranks;
  Ledger ledger;  // Σ over ranks
  std::optional<double> mfu;
  std::optional<std::size_t> slowest;  // index of the rank for which the others waited most
  std::vector<Finding> findings;       // of all ranks together
  bool partial = false;                // a trace was cut off, or could not be read
  std::vector<Note> notes;
};

struct AttributionOptions {
  const Catalog* catalog = nullptr;  // null: the built-in one
  WindowQuestion window{};
  std::optional<Device> device{};  // instead of the device in the trace
  std::optional<FlopRate> peak{};  // of one device, for every data type
  std::optional<Precision> precision{};
  std::optional<FlopCount> model_flop_per_rank{};  // used instead of the sum over operators
  std::vector<ProfiledWindow> counted{};           // the observer's counts of the same steps
  bool timeline = false;
  // The longest usual delay from a launch call to its kernel, and between two events of a host
  // thread. A longer one is idle_unknown.
  std::int64_t dispatch_ns = 50'000, interpreter_ns = 1'000'000;
};

// Fails with `malformed` if no trace has device events or operators, and with `invalid_argument` if
// nothing is in the window.
Result<Attribution> attribute(const Traces& traces, const AttributionOptions& options);

// What attribute() needs of traces, in about a hundredth of their size. Each machine can make a
// part of its own traces. All parts together give exactly the result of all traces together.
struct PartsContent;
class Parts {
 public:
  explicit Parts(std::unique_ptr<PartsContent> content);
  ~Parts();
  Parts(Parts&&) noexcept;
  Parts& operator=(Parts&&) noexcept;
  std::size_t traces() const;
  std::uint64_t json_bytes() const;  // of the traces, uncompressed
  // For each trace that seems to hold a credential: its path, and what was found.
  std::vector<std::pair<std::string, std::string>> secrets() const;
  const std::vector<std::string>& refused() const;  // part files that cannot be used, and why
  const PartsContent& content() const { return *content_; }

 private:
  std::unique_ptr<PartsContent> content_;
};

// Reads traces and part files in any mix. A folder stands for its traces or, if it has none, its
// *.mfu-part. Of the options, only window and timeline matter. A part with another window than
// asked for is refused. Fails as read_traces() does, and if no part can be used.
Result<Parts> gather(const std::vector<std::string>& paths, const AttributionOptions& options,
                     const ReadOptions& reading = {});
// Writes the whole file or nothing; returns its size. Needs parts that were gathered with timeline.
Result<std::uint64_t> write_parts(const Parts& parts, const std::string& path);
Result<Attribution> attribute(const Parts& parts, const AttributionOptions& options);

}  // namespace mfu
