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
  // The template arguments tell what an element-wise kernel does.
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

bool has_part(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::vector<NotedItem> kernel_list(const Situation& situation,
                                   std::initializer_list<std::string_view> kinds,
                                   std::size_t most) {
  std::vector<NotedItem> list;
  for (const KernelLine& kernel : situation.rank.kernels) {
    if (std::find(kinds.begin(), kinds.end(), kernel.kind) == kinds.end()) continue;
    if (list.size() == most) break;
    list.push_back({short_name(kernel.name), kernel.duration_ns, kernel.calls});
  }
  return list;
}

std::int64_t kernel_ns(const Situation& situation, std::string_view kind,
                       std::initializer_list<std::string_view> parts,
                       std::initializer_list<std::string_view> without = {}) {
  std::int64_t ns = 0;
  for (const KernelLine& kernel : situation.rank.kernels) {
    if (kernel.kind != kind) continue;
    auto has = [&](std::string_view part) { return has_part(kernel.name, part); };
    bool fits = std::any_of(parts.begin(), parts.end(), has) &&
                std::none_of(without.begin(), without.end(), has);
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
  Finding finding = finding_of(situation, "rank_wait", Cause::communication, ns);
  finding.evidence.push_back(
      {"waits_in", {{"kernels", kernel_list(situation, {"communication"}, 2)}}});
  finding.fixes = {"balance_ranks"};
  return finding;
}

namespace {

// On a processor, collectives run on the same cores as computation. If the ranks need all cores, a
// hidden collective takes a core away from computation. If each rank has one thread, the processor
// time that the process used outside its loop went to its collectives. Other processes slow them as
// much as they slow the loop.
std::int64_t taken_by_collectives(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  const ProfiledWindow* counted = situation.counted;
  if (!rank.cpu || counted == nullptr || counted->threads != 1) return 0;
  auto ranks =
      static_cast<std::uint64_t>(std::max<std::int64_t>(situation.trace.world_size.value_or(1), 1));
  if (ranks < counted->cores_available || counted->loop_cpu.count() <= 0) return 0;
  double slowed = 1 + static_cast<double>(counted->waited.count()) /
                          static_cast<double>(counted->loop_cpu.count());
  double used = static_cast<double>((counted->cpu - counted->loop_cpu).count());
  std::int64_t hidden = rank.intervals.communication_ns - rank.intervals.exposed_communication_ns;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(slowed * used), 0,
                                  std::max<std::int64_t>(hidden, 0));
}

}  // namespace

std::optional<Finding> transfer_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t taken = taken_by_collectives(situation);
  std::int64_t ns = rank.ledger[LedgerLine::exposed_communication_transfer] + taken;
  if (ns <= 0) return std::nullopt;
  Finding finding = finding_of(situation, "communication", Cause::communication, ns);
  std::int64_t all = rank.intervals.communication_ns;
  if (all > 0) {
    double exposed = static_cast<double>(rank.intervals.exposed_communication_ns);
    finding.evidence.push_back(
        {"hidden_communication",
         {{"duration_ns", all}, {"hidden_fraction", 1 - exposed / static_cast<double>(all)}}});
  }
  if (taken > 0) finding.evidence.push_back({"collectives_take_cores", {{"duration_ns", taken}}});
  finding.evidence.push_back(
      {"mostly", {{"kernels", kernel_list(situation, {"communication"}, 2)}}});
  if (!situation.several_ranks && situation.trace.world_size.value_or(2) > 1) {
    finding.evidence.push_back({"wait_needs_all_ranks", {}});
  }
  finding.fixes = {"overlap_communication"};
  return finding;
}

std::optional<Finding> copies_rule(const Situation& situation) {
  std::int64_t ns = situation.rank.ledger[LedgerLine::exposed_copy];
  if (ns <= 0) return std::nullopt;
  Finding finding = finding_of(situation, "copies", Cause::copies, ns);
  finding.evidence.push_back(
      {"mostly", {{"kernels", kernel_list(situation, {"memcpy", "memset"}, 3)}}});
  std::int64_t all = kernel_ns(situation, "memcpy", {""});
  if (2 * kernel_ns(situation, "memcpy", {"Pageable"}) > all) {
    finding.evidence.push_back({"not_pinned", {}});
    finding.fixes = {"pin_memory"};
  } else if (2 * kernel_ns(situation, "memcpy", {"DtoD", "Device -> Device"}) > all) {
    finding.fixes = {"fewer_device_copies"};
  } else {
    finding.fixes = {"prefetch_batch"};
  }
  return finding;
}

std::optional<Finding> recomputation_rule(const Situation& situation) {
  std::int64_t ns = situation.rank.ledger[LedgerLine::recomputation];
  if (situation.rank.cpu) ns = situation.host.stretched(situation.host.recomputed_ns);
  if (ns <= 0) return std::nullopt;
  Finding finding = finding_of(situation, "recomputation", Cause::recomputation, ns);
  std::int64_t calls = 0;
  for (const OperatorLine& line : situation.rank.operators) {
    calls += static_cast<std::int64_t>(line.recomputed_calls);
  }
  finding.evidence.push_back({"runs_again", {{"calls", calls}}});
  finding.fixes = {"checkpoint_less"};
  return finding;
}

namespace {

constexpr std::size_t kFusedOptimizers =
    4;  // _fused_adam_, _fused_adamw_, _fused_adagrad_, _fused_sgd_

bool is_fused_optimizer(std::string_view name) {
  return name.starts_with("_fused_ad") || name.starts_with("_fused_sgd");
}

}  // namespace

std::optional<Finding> kernels_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t ns = rank.ledger[LedgerLine::other_kernels];
  if (rank.cpu) ns = std::min(ns, situation.host.stretched(situation.host.fusible_ns));
  if (static_cast<double>(ns) < 0.1 * static_cast<double>(rank.window.duration_ns())) {
    return std::nullopt;
  }
  Finding finding = finding_of(situation, "other_kernels", Cause::implementation, ns);
  std::vector<NotedItem> longest = kernel_list(situation, {"compute"}, 3 + kFusedOptimizers);
  // A fused optimizer is one kernel already, and the gain has no part of it.
  std::erase_if(longest, [](const NotedItem& each) { return is_fused_optimizer(each.name); });
  if (longest.size() > 3) longest.resize(3);
  finding.evidence.push_back({"longest", {{"kernels", std::move(longest)}}});
  std::int64_t softmax = kernel_ns(situation, "compute", {"oftMax", "oftmax"});
  if (10 * softmax > ns && has_operator(situation, {"aten::bmm", "aten::baddbmm"})) {
    finding.evidence.push_back({"softmax_alone", {{"duration_ns", softmax}}});
    finding.fixes.emplace_back("flash_attention");
  }
  // optimizer_rule looks at the optimizer of a processor. Kernels that are named after an optimizer
  // are fused already.
  std::int64_t optimizer =
      rank.cpu ? 0 : kernel_ns(situation, "compute", {"multi_tensor_apply"}, {"Fused", "Adam"});
  if (10 * optimizer > ns) {
    finding.evidence.push_back({"in_optimizer", {{"duration_ns", optimizer}}});
    finding.fixes.emplace_back("fused_optimizer");
  }
  std::int64_t layout = kernel_ns(situation, "compute", {"nchwToNhwc", "nhwcToNchw", "transpose"});
  std::int64_t batch_norm = kernel_ns(situation, "compute", {"bn_fw", "bn_bw", "batch_norm"});
  if (10 * layout > ns || 4 * batch_norm > ns) finding.fixes.emplace_back("channels_last");
  if (!situation.trace.compiled) finding.fixes.emplace_back("compile_fuses");
  if (finding.fixes.empty()) return std::nullopt;  // nothing would help
  return finding;
}

}  // namespace mfu
