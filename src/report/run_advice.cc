#include "report/run_advice.h"

#include <fmt/format.h>

#include <algorithm>

namespace mfu {

namespace {

struct Rule {
  StepPhase phase;
  double from;  // share of step time from which it is worth a word
  const char* cause;
  const char* title;
  const char* fix;
};

constexpr Rule kRules[] = {
    {StepPhase::data_wait, 0.03, "data_loading", "the loop waits for its next batch",
     "more DataLoader workers (num_workers, prefetch_factor, persistent_workers), or do the "
     "preprocessing once, ahead of training"},
    {StepPhase::communication, 0.10, "communication", "the host waits in collectives",
     "overlap them with the backward pass (DDP buckets, FSDP prefetch), accumulate gradients over "
     "more batches, or send them in bf16"},
    {StepPhase::optimizer, 0.10, "kernel_launch", "the optimizer takes its share",
     "fused=True in torch.optim (or foreach=True), or fewer, larger updates"},
    {StepPhase::checkpoint, 0.03, "synchronization", "saving checkpoints stops the loop",
     "torch.distributed.checkpoint.async_save, or save less often"},
    {StepPhase::validation, 0.10, "synchronization", "validation passes take their share",
     "validate less often or on less"},
};

// If a share of the time went away, the same FLOPs would be done in the rest.
std::optional<Fraction> without(const std::optional<Fraction>& mfu, double share) {
  if (!mfu || share >= 1) return std::nullopt;
  return Fraction{mfu->value / (1 - share)};
}

void add_slow_rank(const RunReport& report, std::vector<Suggestion>& suggestions) {
  if (!report.slowest_rank) return;
  std::vector<double> own;
  double slowest = 0;
  for (const RunRankReport& each : report.by_rank) {
    if (!each.own) continue;
    own.push_back(static_cast<double>(each.own->count()));
    if (each.rank == report.slowest_rank) slowest = own.back();
  }
  std::sort(own.begin(), own.end());
  double typical = own[(own.size() - 1) / 2];
  suggestions.push_back(
      {"communication",
       fmt::format("rank {} is slow: {:.1f} ms of its own a step, the others {:.1f}",
                   *report.slowest_rank, slowest / 1e6, typical / 1e6),
       fmt::format("look at what rank {} does that the others do not (input pipeline, logging, "
                   "another job on its device)",
                   *report.slowest_rank),
       without(report.mfu, slowest > 0 ? 1 - typical / slowest : 0)});
}

}  // namespace

std::vector<Suggestion> suggestions_for(const RunReport& report, bool tf32_possible) {
  std::vector<Suggestion> suggestions;
  for (const Rule& rule : kRules) {
    const auto& share = report.phase[static_cast<std::size_t>(rule.phase)];
    if (!share || share->value < rule.from) continue;
    suggestions.push_back({rule.cause,
                           fmt::format("{}: {:.1f}% of step time", rule.title, share->value * 100),
                           rule.fix, without(report.mfu, share->value)});
  }
  add_slow_rank(report, suggestions);
  if (tf32_possible) {
    suggestions.push_back({"precision", "fp32 matmuls run without the TF32 units",
                           "torch.set_float32_matmul_precision('high'), or bf16 autocast",
                           std::nullopt});
  }
  if (report.flop && report.flop->recomputed_flop > FlopCount(0)) {
    double share =
        report.flop->recomputed_flop.to_double() / report.flop->hardware_flop.to_double();
    suggestions.push_back(
        {"recomputation",
         fmt::format("{:.1f}% of the executed FLOPs are recomputation", share * 100),
         "checkpoint fewer layers, or only attention, as far as memory allows",
         without(report.mfu, share)});
  }
  auto gain = [](const Suggestion& each) {
    return each.gain_ceiling_mfu ? each.gain_ceiling_mfu->value : 0;
  };
  std::stable_sort(suggestions.begin(), suggestions.end(),
                   [&](const Suggestion& a, const Suggestion& b) { return gain(a) > gain(b); });
  if (suggestions.empty() && report.mfu && report.mfu->value < 0.4) {
    suggestions.push_back(
        {"implementation", "the time is in the forward and backward passes themselves",
         "a larger batch, torch.compile or a lower precision; torch.profiler and mfu explain show "
         "which kernels",
         std::nullopt});
  }
  return suggestions;
}

}  // namespace mfu
