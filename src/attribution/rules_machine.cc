// Rules that know the machine and the loop: what the observer saw beside the trace.
#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "attribution/rules.h"
#include "base/saturating.h"

namespace mfu {

namespace {

// Operators that take longer than this on average are not small.
constexpr double kSmallNs = 50'000;
// Fewer operators than this in an optimizer step: it is fused, or has few tensors.
constexpr std::uint64_t kManyOperators = 24;

std::int64_t inside(const Window& window, std::int64_t start_ns, std::int64_t duration_ns) {
  return std::max<std::int64_t>(
      0, std::min(start_ns + duration_ns, window.end_ns) - std::max(start_ns, window.start_ns));
}

// Where the optimizer itself works: inside Optimizer.step, after the last backward there. With a
// closure (Lightning, LBFGS) forward and backward run inside of it.
class OptimizerRanges {
 public:
  explicit OptimizerRanges(const Trace& trace) : trace_(trace) {
    for (std::uint32_t row = 0; row < trace.host.size(); ++row) {
      std::string_view name = trace.text(trace.host.name[row]);
      if (name.starts_with("Optimizer.step")) {
        starts_[row] = trace.host.start_ns[row];
      } else if (!starts_.empty() && name.starts_with("autograd::engine::evaluate_function")) {
        std::uint32_t range = around(row);
        if (range == kNone) continue;
        std::int64_t end = trace.host.start_ns[row] + trace.host.duration_ns[row];
        starts_[range] = std::max(starts_[range], end);
      }
    }
  }

  bool contains(std::uint32_t row) const {
    std::uint32_t range = around(row);
    return range != kNone && trace_.host.start_ns[row] >= starts_.at(range);
  }
  std::int64_t inside_ns(const Window& window) const {
    std::int64_t ns = 0;
    for (const auto& [row, start] : starts_) {
      ns += inside(window, start, trace_.host.start_ns[row] + trace_.host.duration_ns[row] - start);
    }
    return ns;
  }

 private:
  std::uint32_t around(std::uint32_t row) const {
    while (row != kNone && !starts_.contains(row)) row = trace_.host.parent[row];
    return row;
  }

  const Trace& trace_;
  std::map<std::uint32_t, std::int64_t> starts_;  // by the range's row
};

}  // namespace

OptimizerUse optimizer_use(const Situation& situation) {
  OptimizerUse use;
  const Trace& trace = situation.trace;
  const Window& window = situation.rank.window;
  OptimizerRanges ranges(trace);
  use.range_ns = ranges.inside_ns(window);
  if (use.range_ns == 0 || !situation.rank.cpu) return use;
  std::map<std::uint32_t, std::uint64_t> by_name;
  const std::vector<WorkSpan>& spans = situation.works.spans;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    std::int64_t settled_ns = situation.settled.own_ns[i];
    if (settled_ns == 0 || !ranges.contains(spans[i].event)) continue;
    use.operators_ns += settled_ns;
    use.overhead_ns += situation.settled.overhead_of(i);
    use.held_up_ns += situation.settled.held_up_ns[i];
    ++use.operators;
    use.tensors = std::max(use.tensors, ++by_name[trace.host.name[spans[i].event]]);
  }
  return use;
}

// A fused optimizer reads and writes each tensor once, and is called once: the time between
// operators goes, their overhead goes, and of what they do a share that an operator a tensor has.
std::optional<Finding> optimizer_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  if (!rank.cpu) return std::nullopt;  // its kernels are told apart by kernels_rule
  OptimizerUse use = optimizer_use(situation);
  double window = static_cast<double>(rank.window.duration_ns());
  std::int64_t settled_ns = use.range_ns - std::min(use.range_ns, use.held_up_ns);
  std::int64_t range_ns = situation.settled.stretched(settled_ns);
  if (static_cast<double>(range_ns) < 0.1 * window) return std::nullopt;
  std::uint64_t steps = std::max<std::uint64_t>(rank.window.steps, 1);
  if (use.operators / steps < kManyOperators) return std::nullopt;
  std::int64_t work_ns = use.operators_ns - use.overhead_ns;
  double passes = static_cast<double>(use.operators) / static_cast<double>(use.tensors);
  auto needed_ns = static_cast<std::int64_t>(static_cast<double>(work_ns) / passes);
  Finding finding = finding_of(situation, "optimizer", Cause::optimizer, range_ns);
  finding.gain_ceiling_ns =
      situation.settled.stretched(std::max<std::int64_t>(0, settled_ns - needed_ns));
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
  std::int64_t work = 0;
  for (std::size_t i = 0; i < situation.works.spans.size(); ++i) {
    if (situation.works.spans[i].level == Level::communication) continue;
    work += situation.settled.own_ns[i] - situation.settled.overhead_of(i);
  }
  work = situation.settled.stretched(work);
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

std::int64_t other_work_ns(const Situation& situation) {
  std::int64_t ns = 0;
  OptimizerRanges ranges(situation.trace);
  const std::vector<WorkSpan>& spans = situation.works.spans;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].level != Level::other) continue;
    if (ranges.contains(spans[i].event)) continue;
    ns += situation.settled.own_ns[i] - situation.settled.overhead_of(i);
  }
  return situation.settled.stretched(ns);
}

std::int64_t recomputed_ns(const Situation& situation) {
  std::int64_t ns = 0;
  const std::vector<WorkSpan>& spans = situation.works.spans;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].level == Level::recomputation) ns += situation.settled.own_ns[i];
  }
  return situation.settled.stretched(ns);
}

namespace {

// Operators of a CPU outside of the optimizer, each with its settled time.
struct OperatorUse {
  std::uint64_t operators = 0, items = 0;
  std::int64_t all_ns = 0, overhead_ns = 0;
};

OperatorUse operator_use(const Situation& situation) {
  OperatorUse use;
  OptimizerRanges ranges(situation.trace);
  const std::vector<WorkSpan>& spans = situation.works.spans;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    std::int64_t ns = situation.settled.own_ns[i];
    if (ns == 0 || spans[i].level == Level::communication) continue;
    if (ranges.contains(spans[i].event)) continue;
    ++use.operators;
    use.all_ns = saturating_sum(use.all_ns, ns);
    use.overhead_ns += situation.settled.overhead_of(i);
    std::string_view name = situation.trace.text(situation.trace.host.name[spans[i].event]);
    if (name == "aten::item" || name == "aten::is_nonzero") ++use.items;
  }
  return use;
}

}  // namespace

std::optional<Finding> tiny_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  if (!rank.cpu) return std::nullopt;
  OperatorUse use = operator_use(situation);
  if (use.operators == 0) return std::nullopt;
  double mean = static_cast<double>(use.all_ns) / static_cast<double>(use.operators);
  if (mean > kSmallNs) return std::nullopt;
  OptimizerUse optimizer = optimizer_use(situation);
  std::int64_t between = rank.ledger[LedgerLine::idle_launch];
  std::int64_t in_optimizer = optimizer.range_ns - optimizer.operators_ns - optimizer.held_up_ns;
  between -= std::clamp<std::int64_t>(in_optimizer, 0, between);
  std::uint64_t steps = std::max<std::uint64_t>(rank.window.steps, 1);
  bool reads = 5 * use.items > use.operators;
  Finding finding = finding_of(situation, reads ? "synchronization" : "kernel_launch",
                               reads ? Cause::synchronization : Cause::kernel_launch,
                               situation.settled.stretched(use.overhead_ns + between));
  finding.evidence.push_back(
      {"mean_operator",
       {{"events", static_cast<std::int64_t>(use.operators / steps)},
        {"mean_ns", mean},
        {"wait_ns", static_cast<double>(between) / static_cast<double>(use.operators)}}});
  if (use.items > 0) {
    finding.evidence.push_back(
        {"items", {{"calls", static_cast<std::int64_t>(use.items / steps)}}});
  }
  finding.fixes = reads ? std::vector<std::string>{"read_values_less"}
                        : std::vector<std::string>{"larger_batch"};
  if (!reads && !is_compiled(situation.trace)) {
    finding.fixes.insert(finding.fixes.begin(), "compile_model");
  }
  return finding;
}

}  // namespace mfu
