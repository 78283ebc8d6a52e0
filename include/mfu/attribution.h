// Where the time went: each nanosecond of each device in the window is in one line of a ledger, and
// the lines add up to the window exactly. Findings are rules over that ledger. docs/ledger.md has
// the rules with a drawn example.
//
//   mfu::Traces traces = MFU_TRY(mfu::read_traces({"rank0.json.gz", "rank1.json.gz"}));
//   auto found = MFU_TRY(mfu::attribute(traces, {.catalog = &mfu::Catalog::builtin()}));
//   for (const mfu::RankAttribution& rank : found.ranks) {
//     std::printf("%ld ns waiting for data\n", rank.ledger[mfu::LedgerLine::idle_data]);
//     if (rank.mfu) std::printf("MFU %g\n", *rank.mfu);  // none: no matmul has known FLOPs
//   }
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/hardware.h"
#include "mfu/result.h"
#include "mfu/trace.h"
#include "mfu/units.h"
#include "mfu/window.h"

namespace mfu {

// In the order of every report.
enum class LedgerLine : std::uint8_t {
  matmul_at_peak,       // what the useful matmuls would have taken at the device's peak
  matmul_below_peak,    // the rest of the time they took
  matmul_flop_unknown,  // matmul kernels without shapes, or without a peak to compare with
  recomputation,        // what activation checkpointing ran again
  other_kernels,
  exposed_communication_wait,  // for another rank; only told apart with several ranks
  exposed_communication_transfer,
  exposed_copy,
  idle_data,             // the host thread that launches next was in the data loader
  idle_launch,           // it was busy, and launched after the device had run dry
  idle_synchronization,  // it sat in a synchronise
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
  std::int64_t matmul_ns() const;  // at peak, below it, and unknown
  Ledger& operator+=(const Ledger& other);
  bool operator==(const Ledger&) const = default;

 private:
  std::array<std::int64_t, kLedgerLineCount> ns_{};
};

enum class WindowPolicy : std::uint8_t { all, steps, range };
std::string_view name_of(WindowPolicy policy);

struct WindowQuestion {
  // None: steps where the trace marks them, else all.
  std::optional<WindowPolicy> policy{};
  // Of `range`: on the trace's clock, or after the first device event; none: as far as it goes.
  std::optional<std::int64_t> from_ns{}, to_ns{};
  bool from_relative = false, to_relative = false;
  bool whole_steps = false;  // of a CPU: steps from mark to mark, also where nothing runs
};
// "all", "steps", "FROM:TO". A bare number is nanoseconds of the trace's clock, one with a unit
// (ns, us, ms, s) is after the first device event; either side may be empty.
Result<WindowQuestion> parse_window(std::string_view text);

struct Window {
  WindowPolicy policy = WindowPolicy::all;
  std::int64_t start_ns = 0, end_ns = 0;
  std::uint64_t steps = 0;
  std::int64_t duration_ns() const { return end_ns - start_ns; }
};

// Unions over all streams of a device, of durations as recorded.
struct Intervals {
  std::int64_t busy_ns = 0, idle_ns = 0, compute_ns = 0, communication_ns = 0;
  std::int64_t exposed_communication_ns = 0, copy_ns = 0, exposed_copy_ns = 0;
};

struct StepLedger {  // by device work: from its first device event to the next step's
  std::int64_t number = 0, start_ns = 0, end_ns = 0;
  Ledger ledger;
  FlopCount model_flop;
};

struct OperatorLine {  // calls of one operator with the same arguments
  std::string name, shapes, dtype;
  std::uint64_t calls = 0, recomputed_calls = 0;
  std::optional<FlopCount> flop;          // of all calls, as executed; none: cannot be told
  std::optional<std::uint64_t> bytes;     // read and written by all calls, each operand once
  std::int64_t duration_ns = 0;           // Σ of its kernels, overlaps counted twice
  std::optional<FlopRate> rate, peak;     // of its data type
  std::optional<Fraction> peak_fraction;  // above 1: something contradicts
  std::string code;                       // "train.py(53): forward" where stacks were recorded
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

struct IdleLine {  // idle time of one cause, by what came after it or what the host was in
  LedgerLine cause = LedgerLine::idle_unknown;
  std::string what, code;
  std::uint64_t gaps = 0;
  std::int64_t duration_ns = 0;
  bool cpu_work = false;  // `what` is an operator that ran on the CPU and launched nothing
};

struct Gap {  // one stretch with nothing on the device
  std::int64_t start_ns = 0, end_ns = 0;
  Ledger ledger;       // its idle lines
  std::string next;    // kernel or copy that ended it; empty: none
  std::string host;    // operator that launched it
  std::string reason;  // why part of it is unknown; empty: none is
};

struct LaneSpan {  // what a lane was seen doing; neighbours of one line may have been joined
  std::int64_t start_ns = 0, end_ns = 0;
  LedgerLine line = LedgerLine::other_kernels;
  std::uint32_t name = 0;    // of LaneTimeline::names
  std::uint32_t events = 1;  // joined in it
};
struct LaneTimeline {
  std::string label;  // "stream 7", "host thread 25556"
  std::vector<std::string> names;
  std::vector<LaneSpan> spans;
};

struct AttributionCoverage {
  std::uint64_t gpu_events = 0, clipped_events = 0, skipped_events = 0;
  // Of device time: Σ of durations in the window.
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

// What to change, of a trace and of a run alike. Words are made of it by finding_words() in
// mfu/sink.h.
struct Finding {
  std::string code;  // "data_loading"
  Cause cause = Cause::implementation;
  NoteValues values{};  // "fraction" of what "of" names, and what else is told
  std::vector<Note> evidence{};
  std::vector<std::string> fixes{};  // codes, best first
  // What could be won at the very most if the cause went away and nothing took its place.
  std::optional<double> gain_ceiling_mfu{};
  std::int64_t gain_ceiling_ns = 0;
};

struct RankAttribution {  // one device of one file
  std::string path;
  std::optional<std::int64_t> rank;
  std::int64_t device_id = 0;
  std::string device_name;  // as the trace says it; of the CPU: "CPU"
  std::optional<Device> device;
  bool cpu = false;                       // the CPU is the device: the trace has no device events
  std::optional<ProfiledWindow> counted;  // what the observer saw of the same steps
  std::optional<FlopRate> peak;
  std::optional<Precision> precision;  // that most FLOPs ran in
  std::string peak_source;
  Window window;
  Intervals intervals;
  Ledger ledger;
  std::optional<FlopCount> model_flop, hardware_flop;
  std::optional<double> mfu, hfu;
  std::int64_t communication_wait_ns = 0;  // hidden or exposed, of collectives matched
  std::vector<StepLedger> steps;
  std::vector<OperatorLine> operators;  // that have FLOPs, longest first
  std::vector<KernelLine> kernels;      // longest first
  std::vector<IdleLine> idle;           // longest first
  std::vector<Gap> gaps;                // the longest
  std::vector<LaneTimeline> timeline;   // where asked for
  AttributionCoverage coverage;
  std::vector<Finding> findings;
  std::vector<Note> notes;
};

struct Attribution {
  std::vector<RankAttribution> ranks;
  Ledger ledger;  // Σ over ranks
  std::optional<double> mfu;
  std::optional<std::size_t> slowest;  // of ranks: the one the others waited for most
  std::vector<Finding> findings;       // of all together
  bool partial = false;
  std::vector<Note> notes;
};

struct AttributionOptions {
  const Catalog* catalog = nullptr;  // none: the built-in one
  WindowQuestion window{};
  std::optional<Device> device{};  // instead of the one the trace names
  std::optional<FlopRate> peak{};  // of one device, for every data type
  std::optional<Precision> precision{};
  std::optional<FlopCount> model_flop_per_rank{};  // known better than from operators
  std::vector<ProfiledWindow> counted{};           // the observer's count of these traces' steps
  bool timeline = false;
  // How long after its launch call a kernel may take to start, and how long a thread may be seen
  // doing nothing between two of its events, before that counts as unknown.
  std::int64_t dispatch_ns = 50'000, interpreter_ns = 1'000'000;
};

// `malformed` where no trace has device events or operators; `invalid_argument` for a window that
// holds nothing.
Result<Attribution> attribute(const Traces& traces, const AttributionOptions& options);

}  // namespace mfu
