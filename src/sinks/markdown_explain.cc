#include <fmt/format.h>

#include <algorithm>

#include "mfu/sink.h"
#include "sinks/words.h"

namespace mfu {

namespace {

// Names of kernels come from the trace and must not become markup.
std::string markdown_escaped(std::string_view text) {
  std::string out;
  for (char letter : text) {
    if (std::string_view("\\`*_{}[]<>|#~").find(letter) != std::string_view::npos) out += '\\';
    out += letter == '\n' || letter == '\r' ? ' ' : letter;
  }
  return out;
}

std::string two_digit_percent(double share) {
  return fmt::format("{:.2f}%", share * 100);
}

std::string ledger_table(const std::vector<LedgerRow>& rows) {
  std::string text = "| line | share | time |\n|---|---:|---:|\n";
  for (const LedgerRow& row : rows) {
    text += fmt::format("| `{}` | {} | {} |\n", name_of(row.line), two_digit_percent(row.fraction),
                        duration_text(static_cast<double>(row.duration_ns)));
  }
  return text;
}

std::string rank_table(const ExplainReport& report) {
  std::string text = "| file | rank | device | window | MFU |\n|---|---:|---|---:|---:|\n";
  for (const RankReport& entry : report.ranks) {
    const RankAttribution& rank = entry.found;
    text +=
        fmt::format("| {} | {} | {} | {} | {} |\n", markdown_escaped(rank.path),
                    rank.rank ? std::to_string(*rank.rank) : "", markdown_escaped(rank.device_name),
                    duration_text(static_cast<double>(rank.window.duration_ns())),
                    rank.mfu ? two_digit_percent(*rank.mfu) : "unknown");
  }
  return text;
}

std::string operator_table(const RankAttribution& rank) {
  constexpr std::size_t kShown = 15;
  if (rank.operators.empty()) return "";
  std::string text =
      "\n### Operators\n\n| operator | shapes | type | calls | time | of peak |\n"
      "|---|---|---|---:|---:|---:|\n";
  for (std::size_t i = 0; i < std::min(kShown, rank.operators.size()); ++i) {
    const OperatorLine& line = rank.operators[i];
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", markdown_escaped(line.name),
                        markdown_escaped(line.shapes), line.dtype, line.calls,
                        duration_text(static_cast<double>(line.duration_ns)),
                        line.peak_fraction ? two_digit_percent(line.peak_fraction->value) : "");
  }
  return text;
}

}  // namespace

std::string to_markdown(const ExplainReport& report) {
  std::string text = report.mfu ? fmt::format("## MFU {}", two_digit_percent(*report.mfu))
                                : std::string("## MFU unknown");
  if (report.rating) text += fmt::format(" ({})", name_of(*report.rating));
  text += "\n\n" + rank_table(report) + "\n### Where the time went\n\n" + ledger_table(report.rows);
  text += "\n### What to change\n\n";
  if (report.findings.empty()) text += "Nothing stands out.\n";
  std::size_t number = 0;
  for (const Finding& finding : report.findings) {
    FindingWords words = finding_words(finding);
    text += fmt::format("{}. **{}**\n", ++number, markdown_escaped(words.title));
    std::string gain = duration_text(static_cast<double>(finding.gain_ceiling_ns));
    if (finding.gain_ceiling_mfu) {
      gain += fmt::format(", {:.1f} points of MFU", *finding.gain_ceiling_mfu * 100);
    }
    text += fmt::format("   - at most: {}\n", gain);
    for (const std::string& line : words.evidence) text += "   - " + markdown_escaped(line) + "\n";
    text += "   - fix: " + markdown_escaped(words.fix) + "\n";
  }
  if (report.ranks.size() == 1) text += operator_table(report.ranks.front().found);
  if (!report.notes.empty()) text += "\n### Notes\n\n";
  for (const std::string& note : few_words(report.notes)) {
    text += "- " + markdown_escaped(note) + "\n";
  }
  if (report.partial) text += "- partial: the file ends early\n";
  return text;
}

}  // namespace mfu
