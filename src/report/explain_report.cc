#include <algorithm>

#include "base/text.h"
#include "mfu/report.h"

namespace mfu {

namespace {

std::vector<LedgerRow> rows_of(const Ledger& ledger, std::int64_t window_ns) {
  std::vector<LedgerRow> rows;
  for (std::size_t i = 0; i < kLedgerLineCount; ++i) {
    LedgerLine line = static_cast<LedgerLine>(i);
    double share = 0;
    if (window_ns > 0) {
      share = static_cast<double>(ledger[line]) / static_cast<double>(window_ns);
    }
    rows.push_back({line, ledger[line], share});
  }
  return rows;
}

std::optional<Rating> rating_of_share(std::optional<double> mfu) {
  if (!mfu || *mfu > 1) return std::nullopt;
  return rating_of(Fraction{*mfu});
}

// Runs on the same family of devices ("h100" in "H100-SXM5-80GB") if there are any, otherwise on
// any device: a small, a middling and a large model.
std::vector<PublishedRun> runs_on(const Device& device, std::size_t most) {
  std::string name = to_lower(device.name);
  std::vector<PublishedRun> same;
  for (const PublishedRun& run : published_runs()) {
    std::string family = to_lower(run.device);
    family = family.substr(0, family.find('_'));
    if (name.find(family) != std::string::npos) same.push_back(run);
  }
  if (same.empty()) same = published_runs();
  std::vector<PublishedRun> chosen;
  for (std::size_t i = 0; i < std::min(most, same.size()); ++i) {
    chosen.push_back(same[(2 * i + 1) * same.size() / (2 * std::min(most, same.size()))]);
  }
  return chosen;
}

}  // namespace

ExplainReport report_explanation(Attribution attribution) {
  ExplainReport report;
  report.mfu = attribution.mfu;
  report.rating = rating_of_share(report.mfu);
  report.slowest = attribution.slowest;
  report.findings = std::move(attribution.findings);
  report.partial = attribution.partial;
  report.notes = std::move(attribution.notes);
  for (RankAttribution& rank : attribution.ranks) {
    report.duration_ns += rank.window.duration_ns();
    RankReport& entry = report.ranks.emplace_back();
    entry.rows = rows_of(rank.ledger, rank.window.duration_ns());
    entry.rating = rating_of_share(rank.mfu);
    for (const Note& note : rank.notes) {
      bool said = std::find(report.notes.begin(), report.notes.end(), note) != report.notes.end();
      if (!said) report.notes.push_back(note);
    }
    entry.found = std::move(rank);
  }
  report.rows = rows_of(attribution.ledger, report.duration_ns);
  // A rating would mislead if most of the work is not counted.
  bool mostly_unknown =
      2 * attribution.ledger[LedgerLine::matmul_flop_unknown] > attribution.ledger.matmul_ns();
  if (mostly_unknown) {
    report.rating.reset();
    for (RankReport& rank : report.ranks) rank.rating.reset();
  }
  constexpr std::size_t kRunsBeside = 3;
  const std::optional<Device>& device = report.ranks.front().found.device;
  if (report.mfu && device) report.like = runs_on(*device, kRunsBeside);
  return report;
}

}  // namespace mfu
