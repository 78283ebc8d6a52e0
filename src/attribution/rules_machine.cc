// Rules that know the machine and the loop, from what the observer saw in addition to the trace.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "attribution/names.h"
#include "attribution/rules.h"
#include "base/saturating.h"

namespace mfu {

namespace {

// An operator that takes longer than this on average is not small.
constexpr double kSmallNs = 50'000;
// An optimizer step with fewer operators than this is fused or has few tensors.
constexpr std::uint64_t kManyOperators = 24;
// A step that reads more values than this does more than logging. Fewer operators between two reads
// than this are too few to become one kernel.
constexpr std::uint64_t kFewReads = 8;
constexpr std::uint64_t kOperatorsPerRead = 20;
// A step that calls so many cells of recurrent layers goes through a sequence.
constexpr std::uint64_t kManyCells = 8;

}  // namespace

// A fused optimizer is called once and reads and writes each tensor once. So the time between
// operators goes away, and so does their overhead. Of their work, a share remains: that of one
// operator per tensor.
std::optional<Finding> optimizer_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  if (!rank.cpu) return std::nullopt;  // on a GPU, kernels_rule covers it
  const HostUse& host = situation.host;
  const HostUse::Operators& use = host.optimizer;
  double window = static_cast<double>(rank.window.duration_ns());
  std::int64_t settled_ns =
      host.optimizer_ns - std::min(host.optimizer_ns, host.optimizer_held_up_ns);
  std::int64_t range_ns = std::min(host.optimizer_ns, situation.host.stretched(settled_ns));
  if (static_cast<double>(range_ns) < 0.1 * window) return std::nullopt;
  std::uint64_t steps = std::max<std::uint64_t>(rank.window.steps, 1);
  if (use.count / steps < kManyOperators) return std::nullopt;
  std::int64_t work_ns = use.own_ns - use.overhead_ns;
  double passes = static_cast<double>(use.count) / static_cast<double>(host.optimizer_tensors);
  auto needed_ns = static_cast<std::int64_t>(static_cast<double>(work_ns) / passes);
  Finding finding = finding_of(situation, "optimizer", Cause::optimizer, range_ns);
  finding.gain_ceiling_ns = std::min(
      range_ns, situation.host.stretched(std::max<std::int64_t>(0, settled_ns - needed_ns)));
  finding.evidence.push_back(
      {"optimizer_operators",
       {{"operators", static_cast<std::int64_t>(use.count / steps)},
        {"mean_ns", static_cast<double>(use.own_ns) / static_cast<double>(use.count)}}});
  bool by_hand = 2 * host.by_hand > use.count;
  if (by_hand) finding.evidence.push_back({"updates_by_hand", {}});
  finding.fixes = {by_hand ? "own_optimizer" : "fused_optimizer"};
  return finding;
}

std::optional<Finding> threads_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  const ProfiledWindow* counted = situation.counted;
  if (!rank.cpu || counted == nullptr || situation.several_ranks) return std::nullopt;
  if (counted->threads == 0 || counted->cores_available <= counted->threads) return std::nullopt;
  const HostUse& host = situation.host;
  std::int64_t work = host.stretched(host.all.own_ns - host.all.overhead_ns);
  double idle_share =
      1 - static_cast<double>(counted->threads) / static_cast<double>(counted->cores_available);
  auto ns = static_cast<std::int64_t>(static_cast<double>(work) * idle_share);
  Finding finding = finding_of(situation, "threads", Cause::threads, ns);
  finding.values.emplace_back("threads", static_cast<std::int64_t>(counted->threads));
  finding.values.emplace_back("cores", static_cast<std::int64_t>(counted->cores_available));
  if (counted->wall.count() > 0) {
    finding.evidence.push_back(
        {"cores_used",
         {{"used", std::round(10 * static_cast<double>(counted->cpu.count()) /
                              static_cast<double>(counted->wall.count())) /
                       10},
          {"cores", static_cast<std::int64_t>(counted->cores_available)}}});
  }
  finding.fixes = {"set_threads"};
  return finding;
}

std::optional<Finding> tiny_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  if (!rank.cpu) return std::nullopt;
  const HostUse& host = situation.host;
  const HostUse::Operators& use = host.others;
  if (use.count == 0) return std::nullopt;
  double mean = static_cast<double>(use.own_ns) / static_cast<double>(use.count);
  if (mean > kSmallNs) return std::nullopt;
  std::int64_t between = rank.ledger[LedgerLine::idle_launch];
  std::int64_t in_optimizer = host.optimizer_ns - host.optimizer.own_ns - host.optimizer_held_up_ns;
  between -= std::clamp<std::int64_t>(in_optimizer, 0, between);
  std::uint64_t steps = std::max<std::uint64_t>(rank.window.steps, 1);
  // torch.compile cannot fuse across a read. A loss that is logged is one read.
  bool reads = host.items >= kFewReads * steps && kOperatorsPerRead * host.items > use.count;
  Finding finding = finding_of(situation, reads ? "synchronization" : "kernel_launch",
                               reads ? Cause::synchronization : Cause::kernel_launch,
                               situation.host.stretched(use.overhead_ns + between));
  finding.evidence.push_back(
      {"mean_operator",
       {{"events", static_cast<std::int64_t>(use.count / steps)},
        {"mean_ns", mean},
        {"wait_ns", static_cast<double>(between) / static_cast<double>(use.count)}}});
  if (host.items > 0) {
    finding.evidence.push_back(
        {"items", {{"calls", static_cast<std::int64_t>(host.items / steps)}}});
  }
  if (reads) finding.fixes.emplace_back("read_values_less");
  bool rows = !reads && host.rows_taken > 0;
  if (rows) {
    finding.evidence.push_back(
        {"row_by_row", {{"calls", static_cast<std::int64_t>(host.rows_taken)}}});
    finding.fixes.emplace_back("whole_tensor");
  }
  bool cells = !reads && host.cells_called >= kManyCells;
  if (cells) {
    finding.evidence.push_back(
        {"cell_by_cell", {{"calls", static_cast<std::int64_t>(host.cells_called)}}});
    finding.fixes.emplace_back("whole_sequence");
  }
  if (!situation.trace.compiled) finding.fixes.emplace_back("compile_model");
  if (!reads && !rows) finding.fixes.emplace_back("larger_batch");
  return finding;
}

// A program that compiles once does so before the window. If it compiles inside, it compiles again.
std::optional<Finding> compile_rule(const Situation& situation) {
  std::int64_t ns = 0;
  std::uint64_t calls = 0;
  for (const KernelLine& line : situation.rank.kernels) {
    if (!names_compilation(line.name)) continue;
    ns = saturating_sum(ns, line.duration_ns);
    calls += line.calls;
  }
  if (calls == 0) return std::nullopt;
  Finding finding = finding_of(situation, "compiles_again", Cause::implementation, ns);
  finding.evidence.push_back({"compilations",
                              {{"calls", static_cast<std::int64_t>(calls)},
                               {"steps", static_cast<std::int64_t>(situation.rank.window.steps)}}});
  finding.fixes = {"compile_dynamic"};
  return finding;
}

}  // namespace mfu
