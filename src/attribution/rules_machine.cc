// Rules that know the machine and the loop: what the observer saw beside the trace.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "attribution/rules.h"

namespace mfu {

namespace {

// An operator of so little time is dispatch and Python more than work.
constexpr std::int64_t kTinyNs = 10'000;

std::int64_t inside(const Window& window, std::int64_t start_ns, std::int64_t duration_ns) {
  return std::max<std::int64_t>(
      0, std::min(start_ns + duration_ns, window.end_ns) - std::max(start_ns, window.start_ns));
}

bool is_optimizer(const Trace& trace, std::uint32_t row) {
  return trace.text(trace.host.name[row]).starts_with("Optimizer.step");
}

bool inside_optimizer(const Trace& trace, std::uint32_t row) {
  while (row != kNone && !is_optimizer(trace, row)) row = trace.host.parent[row];
  return row != kNone;
}

}  // namespace

OptimizerUse optimizer_use(const Situation& situation) {
  OptimizerUse use;
  const Trace& trace = situation.trace;
  const Window& window = situation.rank.window;
  for (std::uint32_t row = 0; row < trace.host.size(); ++row) {
    if (!is_optimizer(trace, row)) continue;
    use.range_ns += inside(window, trace.host.start_ns[row], trace.host.duration_ns[row]);
  }
  if (use.range_ns == 0 || !situation.rank.cpu) return use;
  for (const WorkSpan& span : situation.works.spans) {
    if (!inside_optimizer(trace, span.event)) continue;
    std::int64_t ns = inside(window, span.start_ns, span.end_ns - span.start_ns);
    use.operators_ns += ns;
    if (ns < kTinyNs) use.tiny_ns += ns;
    ++use.operators;
  }
  return use;
}

std::optional<Finding> optimizer_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  if (!rank.cpu) return std::nullopt;  // its kernels are told apart by kernels_rule
  OptimizerUse use = optimizer_use(situation);
  double window = static_cast<double>(rank.window.duration_ns());
  if (static_cast<double>(use.range_ns) < 0.1 * window) return std::nullopt;
  std::uint64_t steps = std::max<std::uint64_t>(rank.window.steps, 1);
  // Few operators do all of it: it is fused, or has few tensors; nothing is won by walking less.
  if (use.operators / steps < 24) return std::nullopt;
  Finding finding = finding_of(situation, "optimizer", Cause::optimizer, use.range_ns);
  finding.evidence.push_back(
      {"optimizer_operators",
       {{"operators", static_cast<std::int64_t>(use.operators / steps)},
        {"mean_ns", static_cast<double>(use.operators_ns) / static_cast<double>(use.operators)}}});
  finding.fixes = {"fused_optimizer"};
  return finding;
}

std::optional<Finding> threads_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  const ProfiledWindow* counted = situation.counted;
  if (!rank.cpu || counted == nullptr || situation.several_ranks) return std::nullopt;
  if (counted->threads == 0 || counted->cores_available <= counted->threads) return std::nullopt;
  std::int64_t work = rank.ledger.matmul_ns() + rank.ledger[LedgerLine::recomputation] +
                      rank.ledger[LedgerLine::other_kernels];
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
  std::int64_t tiny_ns = 0, items = 0;
  std::uint64_t operators = 0;
  std::int64_t all_ns = 0;
  for (const WorkSpan& span : situation.works.spans) {
    std::int64_t ns = inside(rank.window, span.start_ns, span.end_ns - span.start_ns);
    if (ns == 0 || span.level == Level::communication) continue;
    ++operators;
    all_ns += ns;
    if (ns < kTinyNs) tiny_ns += ns;
    std::string_view name = situation.trace.text(situation.trace.host.name[span.event]);
    bool reads = name == "aten::item" || name == "aten::is_nonzero";
    if (reads && !inside_optimizer(situation.trace, span.event)) ++items;
  }
  if (operators == 0) return std::nullopt;
  OptimizerUse optimizer = optimizer_use(situation);
  operators -= std::min(operators, optimizer.operators);
  all_ns -= std::min(all_ns, optimizer.operators_ns);
  tiny_ns -= std::min(tiny_ns, optimizer.tiny_ns);
  std::int64_t between = rank.ledger[LedgerLine::idle_launch];
  between -=
      std::min(between, optimizer.range_ns - std::min(optimizer.range_ns, optimizer.operators_ns));
  std::uint64_t steps = std::max<std::uint64_t>(rank.window.steps, 1);
  double mean = operators == 0 ? 0 : static_cast<double>(all_ns) / static_cast<double>(operators);
  if (operators / steps < 100 || mean > 50'000) return std::nullopt;
  bool reads = 5 * static_cast<std::uint64_t>(items) > operators;
  Finding finding =
      finding_of(situation, reads ? "synchronization" : "kernel_launch",
                 reads ? Cause::synchronization : Cause::kernel_launch, tiny_ns + between);
  finding.evidence.push_back(
      {"mean_operator",
       {{"events", static_cast<std::int64_t>(operators / steps)},
        {"mean_ns", mean},
        {"wait_ns", static_cast<double>(between) / static_cast<double>(operators)}}});
  if (items > 0) {
    finding.evidence.push_back({"items", {{"calls", items / static_cast<std::int64_t>(steps)}}});
  }
  finding.fixes = reads ? std::vector<std::string>{"read_values_less"}
                        : std::vector<std::string>{"larger_batch"};
  if (!reads && !is_compiled(situation.trace)) {
    finding.fixes.insert(finding.fixes.begin(), "compile_model");
  }
  return finding;
}

}  // namespace mfu
