// Two traces or two runs side by side: what a step costs in each, how sure that is, and which is
// better, where the difference is larger than the noise.
//
//   auto before = mfu::compared_steps(mfu::read_run("mfu-runs/main").value(), question);
//   auto after = mfu::compared_steps(mfu::read_run("mfu-runs/branch").value(), question);
//   mfu::ComparisonReport report = mfu::report_comparison(*before, *after, std::nullopt);
//   if (report.verdict == mfu::Verdict::worse) return 1;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/report.h"
#include "mfu/run.h"
#include "mfu/statistics.h"
#include "mfu/step_report.h"

namespace mfu {

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

}  // namespace mfu
