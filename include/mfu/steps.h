// Steps one by one, under the names the documents fix (perf/…, mfu/…): of a live run, of a run
// directory, written out again, and of two runs side by side: which is better, where the difference
// is larger than the noise.
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

// What every utilization of a run rests on.
struct UtilizationBasis {
  Convention convention = Convention::exact;
  std::optional<Precision> precision{};
  std::optional<FlopRate> peak{};  // of one device; none: no utilization
  std::string peak_source{};
  std::optional<ByteRate> bandwidth{};
  std::uint64_t devices = 1;  // that the counts below are of
  std::optional<std::uint32_t> rank{};
  bool zero_where_unmeasured = false;  // perf/mfu is 0, not absent, on steps without FLOPs
};

struct StepInput {
  std::uint64_t step = 0;
  std::chrono::nanoseconds time{};  // since 1970, when it ended
  std::optional<double> epoch{}, loss{}, grad_norm{}, learning_rate{};
  std::optional<std::chrono::nanoseconds> duration{};
  std::uint64_t tokens = 0, samples = 0;  // 0: not known
  std::optional<MeasuredFlop> flop{};
  std::optional<GenerationUse> generation{};  // where a period of it ended with this step
};

struct StepMetric {
  std::string_view name;  // one of step_metric_names()
  double value = 0;
};

struct StepReport {
  std::uint64_t step = 0;
  std::chrono::nanoseconds time{};
  std::optional<double> epoch{}, loss{}, grad_norm{}, learning_rate{};
  std::vector<StepMetric> metrics{};  // in the order of step_metric_names(); unknown ones left out
  std::optional<FlopCount> flop{};    // of the step
  std::optional<Source> source{};     // of `flop`
  std::optional<Calibration> calibration{};
  std::optional<std::uint64_t> calibration_age{};  // steps
  std::string note{};                              // why not the source that was asked for
  std::vector<Note> contradictions{};              // a utilization above 1, and the suspect
  std::shared_ptr<const UtilizationBasis> basis{};

  std::optional<double> value(std::string_view metric) const;
};

// Contract: basis is there.
StepReport report_step(const StepInput& input, std::shared_ptr<const UtilizationBasis> basis);

// perf/mfu … perf/samples_per_second, mfu/tokens_per_second … mfu/elapsed_time, mfu/mbu_percentage.
const std::vector<std::string_view>& step_metric_names();

// Every number of a report as scalars: training/loss …, then its metrics.
std::vector<StepMetric> scalars_of(const StepReport& report);

// Its steps one by one, by process: training and marked ones, warm-up among them. A rank's MFU is
// of its own step against one device; the ranks that share one add up.
std::vector<StepReport> report_run_steps(const RunRecord& record, const RunQuestion& question);
// The same of steps that are not held (open_run()), some at a time.
Result<void> report_run_steps(const RunSteps& run, const RunQuestion& question,
                              const std::function<Result<void>(std::span<const StepReport>)>& take);

// The steps that monitors left in a run directory, as reports; those that only a killed process's
// memory-backed queue still held are among them.
struct RecordedSteps {
  std::vector<StepReport> reports;  // by process, the first to log first
  std::uint64_t dropped = 0;
  std::vector<std::string> notes;  // what was damaged or cannot be known
};
// `directory`: the run directory, or the output folder of monitors, which has one (mfu-run).
Result<RecordedSteps> read_recorded_steps(const std::string& directory);

// The same steps some at a time: memory is bounded, however many there are.
using TakeSteps = std::function<Result<void>(std::span<const StepReport>)>;
struct StepStream {
  std::set<std::optional<std::uint32_t>> ranks{};  // that have steps
  std::uint64_t steps = 0;                         // about so many
  // Everything but the reports, once all were taken; fails where a taker does.
  std::function<Result<RecordedSteps>(const TakeSteps&)> read;
};
Result<StepStream> open_recorded_steps(const std::string& directory);

// Steps of one run or trace, in order and without warm-up, the ranks of a step together: what a
// comparison is made of. A list is empty where its values are not known.
struct ComparedSteps {
  std::vector<double> duration_ns;           // mean over the ranks
  std::vector<double> tokens, samples;       // of all ranks
  std::vector<double> flop;                  // model FLOP of all ranks
  std::vector<double> peak_ns, busy_ns;      // MFU of a step that has one is peak_ns / busy_ns
  std::vector<std::string> part_names;       // parts of a step; they add up to it
  std::vector<std::vector<double>> part_ns;  // of each part: of each step
  std::uint64_t ranks = 0, warmup = 0;       // steps of each rank left out
};
// `unsupported` where there are no steps. `reports` by process, as a run directory gives them.
Result<ComparedSteps> compared_steps(const RunRecord& record, const RunQuestion& question);
Result<ComparedSteps> compared_steps(const std::vector<StepReport>& reports);

enum class Verdict : std::uint8_t { better, worse, same };
std::string_view name_of(Verdict verdict);

// One line of two ledgers, in time a step (a window, where steps are not marked in both).
struct ComparisonRow {
  std::string name;  // of a line of the ledger; of runs: of a part of the step
  Estimate before_ns{}, after_ns{};
  double before_fraction = 0, after_fraction = 0;  // of their windows
};
// All lines are means over the same steps: so parts add up to the step, and MFU, tokens a second
// and time a step cannot tell different stories of the same work.
struct ComparisonReport {
  std::string before, after;  // paths
  bool by_step = false;
  Estimate before_ns{}, after_ns{};  // a step or window of one rank
  std::optional<Estimate> before_mfu{}, after_mfu{};
  std::optional<Estimate> before_tokens_per_s{}, after_tokens_per_s{};
  std::string unit = "step";  // of work, whose time is compared: token, sample, step or window
  double gain_fraction = 0;   // of speed: work in the same time; below 0 it got slower
  std::optional<Range> gain_range{};
  std::optional<Verdict> verdict{};  // none: too few steps to tell a change from noise
  std::vector<ComparisonRow> rows{};
  std::vector<std::size_t> less, more;  // rows that take so much less or more time, most first
  std::optional<double> fail_over{};    // slower than that is a failure
  bool failed = false;
  std::vector<std::string> notes{};

  double slower_fraction() const { return 1 / (1 + gain_fraction) - 1; }  // of time
};
ComparisonReport report_comparison(const ExplainReport& before, const ExplainReport& after,
                                   std::optional<double> fail_over);
ComparisonReport report_comparison(const ComparedSteps& before, const ComparedSteps& after,
                                   std::optional<double> fail_over);

// Paths; an empty one is not written.
struct ExportTargets {
  std::string jsonl{};        // one object a step (docs/formats/training_log.md)
  std::string csv{};          // one row a step
  std::string tensorboard{};  // a folder; several ranks get one each below it, rank0, rank1, …
  std::string prometheus{};   // the newest step of each rank
  // What is there gives way. Otherwise nothing is written where one of them exists, or the folder
  // holds event files: the same steps twice would be shown twice.
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
  std::vector<std::uint32_t> ranks;  // that said which they are
  std::vector<ExportedFile> files;
  std::vector<std::string> notes;
};

// A file is there whole or not at all: it is written beside its name and then renamed.
// `invalid_argument` where something is in the way, `io` where it cannot be written.
Result<ExportReport> export_steps(const RecordedSteps& steps, const ExportTargets& targets);
// The same from steps that are not held; `also` gets them too.
Result<ExportReport> export_stream(const StepStream& stream, const ExportTargets& targets,
                                   const TakeSteps& also = {});

std::string to_text(const ExportReport& report);
std::string to_json(const ExportReport& report);  // mfu.export/1

}  // namespace mfu
