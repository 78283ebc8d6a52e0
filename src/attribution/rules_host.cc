#include <fmt/format.h>

#include <algorithm>

#include "attribution/rules.h"

namespace mfu {

std::string time_text(double ns) {
  if (ns >= 1e9) return fmt::format("{:.3g} s", ns * 1e-9);
  if (ns >= 1e8) return fmt::format("{:.0f} ms", ns * 1e-6);
  if (ns >= 1e6) return fmt::format("{:.3g} ms", ns * 1e-6);
  if (ns >= 1e3) return fmt::format("{:.3g} µs", ns * 1e-3);
  return fmt::format("{:.0f} ns", ns);
}

std::string share_text(const Situation& situation, std::int64_t ns) {
  double window =
      static_cast<double>(std::max<std::int64_t>(situation.rank.window.duration_ns(), 1));
  return fmt::format("{:.1f}% of the window ({})", 100 * static_cast<double>(ns) / window,
                     time_text(static_cast<double>(ns)));
}

std::string idle_list(const Situation& situation, LedgerLine cause, std::size_t most) {
  std::string list;
  std::size_t count = 0;
  std::vector<std::pair<std::string, std::int64_t>> sums;
  for (const IdleLine& line : situation.rank.idle) {
    if (line.cause != cause || line.what.empty()) continue;
    auto same = std::find_if(sums.begin(), sums.end(),
                             [&](const auto& sum) { return sum.first == line.what; });
    if (same == sums.end()) same = sums.insert(sums.end(), {line.what, 0});
    same->second += line.duration_ns;
  }
  std::stable_sort(sums.begin(), sums.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [what, ns] : sums) {
    if (count++ == most) break;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", short_name(what),
                        time_text(static_cast<double>(ns)));
  }
  return list;
}

std::string idle_code(const Situation& situation, LedgerLine cause) {
  for (const IdleLine& line : situation.rank.idle) {
    if (line.cause == cause && !line.code.empty()) return line.code;
  }
  return {};
}

namespace {

void add_code(const Situation& situation, LedgerLine cause, Finding& finding) {
  std::string code = idle_code(situation, cause);
  if (!code.empty()) finding.evidence.push_back(fmt::format("most of it at {}", code));
}

bool has_optimizer(const Trace& trace) {
  for (std::uint32_t text = 0; text < trace.text_count(); ++text) {
    if (trace.text(text).starts_with("Optimizer.step")) return true;
  }
  return false;
}

struct EventMean {
  std::uint64_t events = 0;
  double mean_ns = 0;
};

EventMean mean_event(const RankAttribution& rank) {
  EventMean mean;
  std::int64_t sum = 0;
  for (const KernelLine& kernel : rank.kernels) {
    mean.events += kernel.calls;
    sum += kernel.duration_ns;
  }
  if (mean.events > 0) mean.mean_ns = static_cast<double>(sum) / static_cast<double>(mean.events);
  return mean;
}

}  // namespace

std::optional<Finding> data_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t ns = rank.ledger[LedgerLine::idle_data];
  if (ns <= 0) return std::nullopt;
  Finding finding{"data_loading", Cause::data_loading, {}, {}, {}, {}, ns};
  finding.title = fmt::format("The device waits for data: {}", share_text(situation, ns));
  std::int64_t longest = 0;
  std::uint64_t gaps = 0;
  std::string range;
  for (const IdleLine& line : rank.idle) {
    if (line.cause != LedgerLine::idle_data) continue;
    gaps += line.gaps;
    if (range.empty()) range = line.what;
  }
  for (const Gap& gap : rank.gaps) longest = std::max(longest, gap.ledger[LedgerLine::idle_data]);
  finding.evidence.push_back(fmt::format("{} waits, the longest {}, with the host in {}", gaps,
                                         time_text(static_cast<double>(longest)), range));
  bool in_process = range.find("_SingleProcess") != std::string::npos;
  bool workers = range.find("_MultiProcessing") != std::string::npos;
  if (in_process) {
    finding.evidence.emplace_back(
        "the loader runs inside the training process (num_workers=0): nothing is loaded while the "
        "device works");
    finding.fix =
        "DataLoader(num_workers=4 or more, pin_memory=True, persistent_workers=True); if it still "
        "waits: memory-mapped data, preprocessing offline.";
  } else {
    if (workers) finding.evidence.emplace_back("the loader's workers do not keep up");
    finding.fix =
        "More loader workers and a larger prefetch_factor, memory-mapped or pre-tokenised data, "
        "preprocessing offline or on the device.";
  }
  add_code(situation, LedgerLine::idle_data, finding);
  return finding;
}

std::optional<Finding> preprocessing_rule(const Situation& situation) {
  std::int64_t ns = situation.idle.cpu_work_ns;
  if (ns <= 0 || situation.rank.cpu) return std::nullopt;
  Finding finding{"cpu_operators", Cause::cpu_preprocessing, {}, {}, {}, {}, ns};
  finding.title =
      fmt::format("The device waits for work done on the CPU: {}", share_text(situation, ns));
  std::string list;
  for (const IdleLine& line : situation.rank.idle) {
    if (!line.cpu_work || list.size() > 120) continue;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", line.what,
                        time_text(static_cast<double>(line.duration_ns)));
  }
  finding.evidence.push_back(
      fmt::format("operators that launched nothing ran while the device had no work: {}", list));
  finding.fix =
      "Preprocessing: do it offline or in loader workers, with memory-mapped data; anything else: "
      "on the device.";
  return finding;
}

std::optional<Finding> launch_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t ns = rank.ledger[LedgerLine::idle_launch];
  if (!rank.cpu) {
    ns -= situation.idle.launch_after_synchronization_ns + situation.idle.cpu_work_ns;
  }
  if (ns <= 0) return std::nullopt;
  Finding finding{"kernel_launch", Cause::kernel_launch, {}, {}, {}, {}, ns};
  EventMean mean = mean_event(rank);
  if (mean.events == 0) return std::nullopt;
  double wait_ns = static_cast<double>(ns) / static_cast<double>(mean.events);
  if (rank.cpu) {
    finding.title = fmt::format("The CPU is between operators: {}", share_text(situation, ns));
    finding.evidence.push_back(
        fmt::format("{} operators of {} on average, {} of Python and dispatch for each",
                    mean.events, time_text(mean.mean_ns), time_text(wait_ns)));
    finding.fix = "torch.compile, a larger batch, fewer and larger operators.";
    add_code(situation, LedgerLine::idle_launch, finding);
    return finding;
  }
  finding.title = fmt::format("The host launches kernels slower than the device runs them: {}",
                              share_text(situation, ns));
  finding.evidence.push_back(
      fmt::format("{} device events of {} on average; after each the device waits {} for the host",
                  mean.events, time_text(mean.mean_ns), time_text(wait_ns)));
  std::string list = idle_list(situation, LedgerLine::idle_launch, 3);
  if (!list.empty()) finding.evidence.push_back("longest waits before " + list);
  add_code(situation, LedgerLine::idle_launch, finding);
  if (2 * situation.idle.slow_call_ns > ns) {
    finding.evidence.push_back(fmt::format(
        "{} of it in {} launch calls that took a millisecond or more: the driver loads "
        "code at its first use",
        time_text(static_cast<double>(situation.idle.slow_call_ns)), situation.idle.slow_calls));
    finding.fix =
        "Profile after a few warm-up steps (torch.profiler.schedule(warmup=…)); this is the start, "
        "not the run.";
    return finding;
  }
  finding.fix = "torch.compile(mode=\"reduce-overhead\") or CUDA graphs, a larger batch";
  finding.fix += has_optimizer(situation.trace) ? ", a fused optimizer (fused=True)." : ".";
  return finding;
}

std::optional<Finding> synchronization_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t waited = rank.ledger[LedgerLine::idle_synchronization];
  std::int64_t after = situation.idle.launch_after_synchronization_ns;
  if (waited + after <= 0) return std::nullopt;
  Finding finding{"synchronization", Cause::synchronization, {}, {}, {}, {}, waited + after};
  finding.title = fmt::format("The host waits for the device, and then the device for the host: {}",
                              share_text(situation, waited + after));
  std::string list = idle_list(situation, LedgerLine::idle_synchronization, 3);
  if (!list.empty()) finding.evidence.push_back("the host sat in " + list);
  if (after > 0) {
    finding.evidence.push_back(fmt::format("{} more passed until the host had launched again",
                                           time_text(static_cast<double>(after))));
  }
  add_code(situation, LedgerLine::idle_synchronization, finding);
  finding.fix =
      "Avoid .item(), .cpu(), print(loss) and other reads of device values in the step; log every "
      "N steps; non_blocking=True copies.";
  return finding;
}

}  // namespace mfu
