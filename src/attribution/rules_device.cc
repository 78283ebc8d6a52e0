#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "attribution/rules.h"
#include "base/saturating.h"

namespace mfu {

std::string short_name(std::string_view kernel) {
  std::string plain(kernel);
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (std::size_t at = plain.find(kAnonymous); at != std::string::npos;
       at = plain.find(kAnonymous)) {
    plain.erase(at, kAnonymous.size());
  }
  kernel = plain;
  std::string_view name = kernel;
  if (name.starts_with("void ")) name.remove_prefix(5);
  std::size_t cut = name.find_first_of("<(");  // template arguments, parameters
  bool range = kernel.starts_with("enumerate(") || kernel.starts_with("Mem") || cut == 0;
  std::string text(range ? name : name.substr(0, cut));
  // What an element-wise kernel does stands in its template arguments.
  for (std::string_view wrapper : {"elementwise_kernel", "reduce_kernel"}) {
    if (text.find(wrapper) == std::string::npos) continue;
    for (std::string_view token : {"Functor", "_kernel_cuda", "_kernel_impl", "Ops", "_functor"}) {
      std::size_t at = kernel.find(token, 5 + text.size());
      if (at == std::string_view::npos) continue;
      std::size_t start = kernel.find_last_of(":<( ,", at) + 1;
      std::size_t end = std::min(kernel.find_first_of("<(,: >", at), kernel.size());
      text += fmt::format(" ({})", kernel.substr(start, end - start));
      break;
    }
  }
  std::size_t scope = text.rfind("::", text.find(' '));
  if (!range && scope != std::string::npos) text.erase(0, scope + 2);
  if (text.size() > 64) text = text.substr(0, 61) + "…";
  return text;
}

namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string kernel_list(const Situation& situation, std::initializer_list<std::string_view> kinds,
                        std::size_t most) {
  std::string list;
  std::size_t count = 0;
  for (const KernelLine& kernel : situation.rank.kernels) {
    if (std::find(kinds.begin(), kinds.end(), kernel.kind) == kinds.end()) continue;
    if (count++ == most) break;
    list += fmt::format("{}{} {} ({}×)", list.empty() ? "" : ", ", short_name(kernel.name),
                        time_text(static_cast<double>(kernel.duration_ns)), kernel.calls);
  }
  return list;
}

std::int64_t kernel_ns(const Situation& situation, std::string_view kind,
                       std::initializer_list<std::string_view> parts) {
  std::int64_t ns = 0;
  for (const KernelLine& kernel : situation.rank.kernels) {
    if (kernel.kind != kind) continue;
    bool fits = std::any_of(parts.begin(), parts.end(),
                            [&](std::string_view part) { return has(kernel.name, part); });
    if (fits) ns = saturating_sum(ns, kernel.duration_ns);
  }
  return ns;
}

bool has_operator(const Situation& situation, std::initializer_list<std::string_view> names) {
  return std::any_of(situation.rank.operators.begin(), situation.rank.operators.end(),
                     [&](const OperatorLine& line) {
                       return std::find(names.begin(), names.end(), line.name) != names.end();
                     });
}

}  // namespace

std::optional<Finding> waiting_rule(const Situation& situation) {
  std::int64_t ns = situation.rank.ledger[LedgerLine::exposed_communication_wait];
  if (ns <= 0) return std::nullopt;
  Finding finding{"rank_wait", Cause::communication, {}, {}, {}, {}, ns};
  finding.title =
      fmt::format("This rank waits for others in collectives: {}", share_text(situation, ns));
  finding.evidence.push_back("in " + kernel_list(situation, {"communication"}, 2) +
                             "; the wait is what it stayed longer than the rank that came last");
  finding.fix =
      "Balance the ranks: equal batches and sequence lengths, no rank that logs, loads or "
      "checkpoints more than others; look at the slowest rank's own ledger.";
  return finding;
}

std::optional<Finding> transfer_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t ns = rank.ledger[LedgerLine::exposed_communication_transfer];
  if (ns <= 0) return std::nullopt;
  Finding finding{"communication", Cause::communication, {}, {}, {}, {}, ns};
  finding.title = fmt::format("Communication that nothing hides: {}", share_text(situation, ns));
  std::int64_t all = rank.intervals.communication_ns;
  if (all > 0) {
    double hidden =
        1 - static_cast<double>(rank.intervals.exposed_communication_ns) / static_cast<double>(all);
    finding.evidence.push_back(fmt::format("{} of communication, {:.0f}% of it behind computation",
                                           time_text(static_cast<double>(all)), 100 * hidden));
  }
  finding.evidence.push_back("mostly " + kernel_list(situation, {"communication"}, 2));
  if (!situation.several_ranks && situation.trace.info.world_size.value_or(2) > 1) {
    finding.evidence.emplace_back(
        "how much of it is waiting for another rank cannot be told from one: pass all ranks' "
        "traces");
  }
  finding.fix =
      "Overlap it with computation (DDP bucket size bucket_cap_mb and gradient_as_bucket_view, "
      "FSDP prefetch); larger batch or gradient accumulation; bf16 gradients.";
  return finding;
}

std::optional<Finding> copies_rule(const Situation& situation) {
  std::int64_t ns = situation.rank.ledger[LedgerLine::exposed_copy];
  if (ns <= 0) return std::nullopt;
  Finding finding{"copies", Cause::copies, {}, {}, {}, {}, ns};
  finding.title = fmt::format("Copies that nothing hides: {}", share_text(situation, ns));
  finding.evidence.push_back("mostly " + kernel_list(situation, {"memcpy", "memset"}, 3));
  std::int64_t all = kernel_ns(situation, "memcpy", {""});
  std::int64_t pageable = kernel_ns(situation, "memcpy", {"Pageable"});
  std::int64_t local = kernel_ns(situation, "memcpy", {"DtoD", "Device -> Device"});
  if (2 * pageable > all) {
    finding.evidence.emplace_back("from memory that is not pinned");
    finding.fix =
        "Pin the memory (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with "
        "non_blocking=True while the device computes.";
  } else if (2 * local > all) {
    finding.fix =
        "Copies within the device: avoid .contiguous(), .clone() and changes of layout; "
        "channels-last throughout; torch.compile removes many.";
  } else {
    finding.fix = "Prefetch the next batch on a stream of its own, non_blocking=True.";
  }
  return finding;
}

std::optional<Finding> recomputation_rule(const Situation& situation) {
  std::int64_t ns = situation.rank.ledger[LedgerLine::recomputation];
  if (ns <= 0) return std::nullopt;
  Finding finding{"recomputation", Cause::recomputation, {}, {}, {}, {}, ns};
  finding.title = fmt::format("Activations are computed twice: {}", share_text(situation, ns));
  std::uint64_t calls = 0;
  for (const OperatorLine& line : situation.rank.operators) calls += line.recomputed_calls;
  finding.evidence.push_back(
      fmt::format("forward operators run again inside the backward pass; {} of them matmuls or "
                  "convolutions",
                  calls));
  finding.fix =
      "Checkpoint fewer layers, or selectively (keep matmul and attention outputs), if memory "
      "allows; a smaller batch with none may be faster.";
  return finding;
}

std::optional<Finding> kernels_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t ns = rank.ledger[LedgerLine::other_kernels];
  if (static_cast<double>(ns) < 0.1 * static_cast<double>(rank.window.duration_ns())) {
    return std::nullopt;
  }
  Finding finding{"other_kernels", Cause::implementation, {}, {}, {}, {}, ns};
  finding.title = fmt::format("{} that are no matmuls: {}", rank.cpu ? "Operators" : "Kernels",
                              share_text(situation, ns));
  finding.evidence.push_back("longest: " + kernel_list(situation, {"compute"}, 3));
  std::vector<std::string> fixes;
  std::int64_t softmax = kernel_ns(situation, "compute", {"oftMax", "oftmax"});
  bool plain_attention = has_operator(situation, {"aten::bmm", "aten::baddbmm"});
  if (10 * softmax > ns && plain_attention) {
    finding.evidence.push_back(fmt::format("softmax stands alone ({}): attention is not fused",
                                           time_text(static_cast<double>(softmax))));
    fixes.emplace_back("flash attention (scaled_dot_product_attention)");
  }
  std::int64_t optimizer = kernel_ns(situation, "compute", {"multi_tensor_apply", "dam"});
  if (10 * optimizer > ns) {
    finding.evidence.push_back(
        fmt::format("{} of it in the optimizer", time_text(static_cast<double>(optimizer))));
    fixes.emplace_back("a fused optimizer (fused=True)");
  }
  std::int64_t layout = kernel_ns(situation, "compute", {"nchwToNhwc", "nhwcToNchw", "transpose"});
  std::int64_t batch_norm = kernel_ns(situation, "compute", {"bn_fw", "bn_bw", "batch_norm"});
  if (10 * layout > ns || 4 * batch_norm > ns) {
    fixes.emplace_back("channels-last (memory_format=torch.channels_last)");
  }
  fixes.emplace_back("torch.compile fuses element-wise and reduction kernels");
  finding.fix = fmt::format("{}.", fmt::join(fixes, "; "));
  return finding;
}

}  // namespace mfu
