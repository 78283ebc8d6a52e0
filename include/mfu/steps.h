// Steps one by one, under documented names (perf/…, mfu/…). report_step() makes the report of one
// step. read_recorded_steps() reads the steps of a run directory, and export_steps() writes them as
// files. report_comparison() compares two runs. It says which is better if the difference is larger
// than the noise.
//
//   mfu::RecordedSteps before = MFU_TRY(mfu::read_recorded_steps("mfu-runs/main"));
//   mfu::RecordedSteps after = MFU_TRY(mfu::read_recorded_steps("mfu-runs/branch"));
//   MFU_TRY(mfu::export_steps(after, {.csv = "steps.csv"}));
//   auto report = mfu::report_comparison(MFU_TRY(mfu::compared_steps(before.reports)),
//                                        MFU_TRY(mfu::compared_steps(after.reports)), {});
//   if (report.verdict == mfu::Verdict::worse) std::puts("it got slower");
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/hardware.h"
#include "mfu/measure.h"
#include "mfu/report.h"
#include "mfu/result.h"
#include "mfu/run.h"
#include "mfu/units.h"
#include "mfu/workload.h"

namespace mfu {

// What all utilizations of a run are computed with.
struct UtilizationBasis {
  Convention convention = Convention::exact;
  std::optional<Precision> precision{};
  std::optional<FlopRate> peak{};  // of one device; without it there is no utilization
  std::string peak_source{};
  std::optional<ByteRate> bandwidth{};
  std::uint64_t devices = 1;  // how many devices did the work that a step counts
  std::optional<std::uint32_t> rank{};
  bool zero_where_unmeasured = false;  // on steps without FLOPs, perf/mfu is 0 instead of absent
};

// What all models did in the passes of one phase (docs/generation.md).
struct PhaseDone {
  RunPhase phase = RunPhase::other;
  std::uint64_t tokens = 0;
  FlopCount flop{};  // that the model needs
  std::chrono::nanoseconds time{};
  std::optional<Bytes> moved{};  // weights and caches
};

struct StepInput {
  std::uint64_t step = 0;
  std::chrono::nanoseconds time{};  // end of the step, since 1970
  std::optional<double> epoch{}, loss{}, grad_norm{}, learning_rate{};
  std::optional<std::chrono::nanoseconds> duration{};
  std::uint64_t tokens = 0, samples = 0;  // 0 if not known
  std::optional<MeasuredFlop> flop{};
  std::optional<GenerationUse> generation{};  // if a period of generation ended with this step
  std::vector<PhaseDone> phases{};            // of that period, if an observer counted them
};

struct StepMetric {
  std::string_view name;  // one of step_metric_names() or phase_metric_names()
  double value = 0;
};

struct StepReport {
  std::uint64_t step = 0;
  std::chrono::nanoseconds time{};
  std::optional<double> epoch{}, loss{}, grad_norm{}, learning_rate{};
  std::vector<StepMetric> metrics{};  // the known ones, in the order of their names
  std::optional<FlopCount> flop{};    // of the step
  std::optional<Source> source{};     // of `flop`
  std::optional<Calibration> calibration{};
  std::optional<std::uint64_t> calibration_age{};  // steps
  std::string note{};                              // why another source was used than asked for
  std::vector<Note> contradictions{};              // a utilization above 1, and its likely cause
  std::shared_ptr<const UtilizationBasis> basis{};

  std::optional<double> value(std::string_view metric) const;
};

// Contract: `basis` is not null.
StepReport report_step(const StepInput& input, std::shared_ptr<const UtilizationBasis> basis);

// perf/mfu … perf/samples_per_second, mfu/tokens_per_second … mfu/elapsed_time, mfu/mbu_percentage.
const std::vector<std::string_view>& step_metric_names();
// mfu/prefill/tokens, …/flop, …/time, …/mfu_percentage, …/mbu_percentage, and so on for decode,
// train, forward and validation.
const std::vector<std::string_view>& phase_metric_names();

// All numbers of a report by name: first training/loss and similar ones, then the metrics.
std::vector<StepMetric> scalars_of(const StepReport& report);

// The training and marked steps of a run, process by process, including warm-up. A rank's MFU
// compares its own FLOPs with a whole device. If ranks share a device, the sum of their MFUs is the
// device's.
std::vector<StepReport> report_run_steps(const RunRecord& record, const RunQuestion& question);
// The same for the steps of open_run(), which hands them over a few at a time.
Result<void> report_run_steps(const RunSteps& run, const RunQuestion& question,
                              const std::function<Result<void>(std::span<const StepReport>)>& take);

// The steps that monitors left in a run directory. Steps that a killed process still had in its
// memory-backed queue are included.
struct RecordedSteps {
  std::vector<StepReport> reports;  // process by process, in the order in which they began to log
  std::uint64_t dropped = 0;
  std::vector<std::string> notes;  // what was damaged or is not known
};
// `directory` is the run directory, or the output folder of monitors, which contains one (mfu-run).
Result<RecordedSteps> read_recorded_steps(const std::string& directory);

// The same steps, a few at a time, so that memory is bounded.
using TakeSteps = std::function<Result<void>(std::span<const StepReport>)>;
struct StepStream {
  std::set<std::optional<std::uint32_t>> ranks{};  // ranks that have steps
  std::uint64_t steps = 0;                         // about how many
  // Gives all steps to the taker and returns RecordedSteps, in which `reports` is empty. Fails if
  // the taker fails.
  std::function<Result<RecordedSteps>(const TakeSteps&)> read;
};
Result<StepStream> open_recorded_steps(const std::string& directory);

// The steps of one run or trace for a comparison: in order, without warm-up, all ranks of a step
// together. A list is empty if its values are not known.
struct ComparedSteps {
  std::vector<double> duration_ns;           // mean over the ranks
  std::vector<double> tokens, samples;       // of all ranks
  std::vector<double> flop;                  // model FLOP of all ranks
  std::vector<double> peak_ns, busy_ns;      // time at peak, time spent; MFU is peak_ns / busy_ns
  std::vector<std::string> part_names;       // parts of a step; together they are the step
  std::vector<std::vector<double>> part_ns;  // for each part, its time in each step
  std::uint64_t ranks = 0, warmup = 0;       // `warmup`: steps ignored per rank
};
// Fails with `unsupported` if there are no steps. `reports` must be ordered by process, as
// read_recorded_steps() returns them.
Result<ComparedSteps> compared_steps(const RunRecord& record, const RunQuestion& question);
Result<ComparedSteps> compared_steps(const std::vector<StepReport>& reports);

enum class Verdict : std::uint8_t { better, worse, same };
std::string_view name_of(Verdict verdict);

// One line of both ledgers. Times are per step, or per window if a side does not mark its steps.
struct ComparisonRow {
  std::string name;  // of a line of the ledger; for runs, of a part of the step
  Estimate before_ns{}, after_ns{};
  double before_fraction = 0, after_fraction = 0;  // shares of their windows
};
// All lines are means over the same steps. So the parts add up to the step, and MFU, tokens per
// second and step time always agree with each other.
struct ComparisonReport {
  std::string before, after;  // paths
  bool by_step = false;
  Estimate before_ns{}, after_ns{};  // a step or window of one rank
  std::optional<Estimate> before_mfu{}, after_mfu{};
  std::optional<Estimate> before_tokens_per_s{}, after_tokens_per_s{};
  std::string unit = "step";  // the work whose time is compared: token, sample, step or window
  double gain_fraction = 0;   // gain in speed; below 0 it got slower
  std::optional<Range> gain_range{};
  std::optional<Verdict> verdict{};  // none if there are too few steps to tell a change from noise
  std::vector<ComparisonRow> rows{};
  std::vector<std::size_t> less, more;  // rows that take clearly less or more time, most first
  std::optional<double> fail_over{};    // it has failed if it is slower by more than this
  bool failed = false;
  std::vector<Note> notes{};

  double slower_fraction() const { return 1 / (1 + gain_fraction) - 1; }  // added time / old time
};
ComparisonReport report_comparison(const ExplainReport& before, const ExplainReport& after,
                                   std::optional<double> fail_over);
ComparisonReport report_comparison(const ComparedSteps& before, const ComparedSteps& after,
                                   std::optional<double> fail_over);

// Where to write. A format with an empty path is not written.
struct ExportTargets {
  std::string jsonl{};        // one object per step (docs/formats/training_log.md)
  std::string csv{};          // one row per step
  std::string tensorboard{};  // a folder; several ranks get one folder each in it: rank0, rank1, …
  std::string prometheus{};   // the newest step of each rank
  // Replace what exists. If false, one existing file stops the export, and so do event files in the
  // folder, because the same steps would be shown twice.
  bool replace = false;
};

struct ExportedFile {
  std::string format;  // "jsonl", "csv", "tensorboard", "prometheus"
  std::string path;
  std::uint64_t steps = 0;
};

struct ExportReport {
  std::string run;  // the directory
  std::uint64_t steps = 0, dropped = 0;
  std::vector<std::uint32_t> ranks;  // those that are known
  std::vector<ExportedFile> files;
  std::vector<std::string> notes;
};

// Each file is written under another name and then renamed, so it is complete or absent. Fails with
// `invalid_argument` if a target exists and with `io` if one cannot be written.
Result<ExportReport> export_steps(const RecordedSteps& steps, const ExportTargets& targets);
// The same for a stream of steps. `also` gets every step too.
Result<ExportReport> export_stream(const StepStream& stream, const ExportTargets& targets,
                                   const TakeSteps& also = {});

std::string to_text(const ExportReport& report);
std::string to_json(const ExportReport& report);  // mfu.export/1

}  // namespace mfu
