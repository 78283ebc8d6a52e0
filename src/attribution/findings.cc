#include "attribution/findings.h"

#include <algorithm>
#include <map>

#include "attribution/rules.h"

namespace mfu {

namespace {

constexpr std::size_t kFindingsKept = 5;
// A cause below this share of the window is not worth a person's time. In a run that is already
// good, it must be five times as large.
constexpr double kWorthFraction = 0.02;
constexpr double kWorthWhenGoodFraction = 0.1;
constexpr double kGoodMfu = 0.5;

bool ranks_before(const Finding& a, const Finding& b) {
  double left = a.gain_ceiling_mfu.value_or(0);
  double right = b.gain_ceiling_mfu.value_or(0);
  return left != right ? left > right : a.gain_ceiling_ns > b.gain_ceiling_ns;
}

}  // namespace

void rank_and_cut(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), ranks_before);
  if (findings.size() > kFindingsKept) findings.resize(kFindingsKept);
}

std::optional<double> mfu_gain(std::optional<double> mfu, std::int64_t window_ns,
                               std::int64_t gain_ns) {
  if (!mfu || gain_ns >= window_ns) return std::nullopt;
  double window = static_cast<double>(window_ns);
  double then = *mfu * window / (window - static_cast<double>(gain_ns));
  return std::min(then, std::max(1.0, *mfu)) - *mfu;
}

std::vector<Finding> findings_of(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::vector<Finding> findings;
  for (Rule rule :
       {data_rule, preprocessing_rule, launch_rule, tiny_rule, compile_rule, threads_rule,
        optimizer_rule, synchronization_rule, unknown_rule, waiting_rule, transfer_rule,
        copies_rule, recomputation_rule, precision_rule, matmul_rule, kernels_rule}) {
    std::optional<Finding> finding = rule(situation);
    if (!finding) continue;
    bool good = rank.mfu && *rank.mfu >= kGoodMfu;
    double worth = good ? kWorthWhenGoodFraction : kWorthFraction;
    double window = static_cast<double>(rank.window.duration_ns());
    if (static_cast<double>(finding->gain_ceiling_ns) < worth * window) continue;
    finding->gain_ceiling_mfu =
        mfu_gain(rank.mfu, rank.window.duration_ns(), finding->gain_ceiling_ns);
    findings.push_back(*std::move(finding));
  }
  rank_and_cut(findings);
  return findings;
}

std::vector<Finding> findings_of_all(const std::vector<RankAttribution>& ranks,
                                     std::optional<double> mfu) {
  if (ranks.size() == 1) return ranks.front().findings;
  struct Sum {
    const Finding* worst = nullptr;
    const RankAttribution* rank = nullptr;
    std::int64_t gain_ns = 0;
    std::size_t count = 0;
  };
  std::map<std::string, Sum> sums;
  std::int64_t window_ns = 0;
  for (const RankAttribution& rank : ranks) {
    window_ns += rank.window.duration_ns();
    for (const Finding& finding : rank.findings) {
      Sum& sum = sums[finding.code];
      sum.gain_ns += finding.gain_ceiling_ns;
      ++sum.count;
      if (sum.worst == nullptr || finding.gain_ceiling_ns > sum.worst->gain_ceiling_ns) {
        sum.worst = &finding;
        sum.rank = &rank;
      }
    }
  }
  std::vector<Finding> findings;
  for (const auto& [code, sum] : sums) {
    if (static_cast<double>(sum.gain_ns) < kWorthFraction * static_cast<double>(window_ns)) {
      continue;
    }
    Finding& finding = findings.emplace_back(*sum.worst);
    finding.gain_ceiling_ns = sum.gain_ns;
    finding.gain_ceiling_mfu = mfu_gain(mfu, window_ns, sum.gain_ns);
    for (auto& [name, value] : finding.values) {
      if (finding.code == "matmul_below_peak") break;  // it describes the matmuls of the worst rank
      if (name == "of") value = "all_ranks";
      if (name == "fraction") {
        value = static_cast<double>(sum.gain_ns) / static_cast<double>(window_ns);
      }
      if (name == "duration_ns") value = sum.gain_ns;
    }
    finding.evidence.insert(finding.evidence.begin(),
                            {"on_ranks",
                             {{"ranks", static_cast<std::int64_t>(sum.count)},
                              {"all", static_cast<std::int64_t>(ranks.size())},
                              {"worst", sum.rank->rank ? std::to_string(*sum.rank->rank) : "?"}}});
  }
  rank_and_cut(findings);
  return findings;
}

}  // namespace mfu
