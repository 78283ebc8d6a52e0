#include <fmt/format.h>

#include "mfu/sink.h"

namespace mfu {

namespace {

// Quotes a cell as RFC 4180 asks. A cell that a spreadsheet would run as a formula gets an
// apostrophe before it.
std::string safe_cell(std::string_view text) {
  std::string out;
  bool quoted = false;
  if (!text.empty() && std::string_view("=+-@\t").find(text.front()) != std::string_view::npos) {
    out += '\'';
  }
  for (char letter : text) {
    if (letter == '"') out += '"';
    quoted = quoted || letter == '"' || letter == ',' || letter == '\n' || letter == '\r';
    out += letter;
  }
  return quoted ? '"' + out + '"' : out;
}

struct Row {
  std::string_view table, name, detail;
  std::string calls, duration, fraction, flop;
};

std::string line_of(const RankAttribution& rank, const Row& row) {
  return fmt::format("{},{},{},{},{},{},{},{},{}\n", safe_cell(rank.path),
                     rank.rank ? std::to_string(*rank.rank) : "", row.table, safe_cell(row.name),
                     safe_cell(row.detail), row.calls, row.duration, row.fraction, row.flop);
}

}  // namespace

std::string to_csv(const ExplainReport& report) {
  std::string text = "path,rank,table,name,detail,calls,duration_ns,fraction,flop\n";
  for (const RankReport& entry : report.ranks) {
    const RankAttribution& rank = entry.found;
    for (const LedgerRow& row : entry.rows) {
      text += line_of(rank, {"ledger", name_of(row.line), "", "", std::to_string(row.duration_ns),
                             fmt::format("{}", row.fraction), ""});
    }
    for (const OperatorLine& line : rank.operators) {
      text += line_of(
          rank, {"operator", line.name, line.shapes + (line.dtype.empty() ? "" : " " + line.dtype),
                 std::to_string(line.calls), std::to_string(line.duration_ns),
                 line.peak_fraction ? fmt::format("{}", line.peak_fraction->value) : "",
                 line.flop ? line.flop->to_string() : ""});
    }
    for (const KernelLine& line : rank.kernels) {
      text += line_of(rank, {"kernel", line.name, line.kind, std::to_string(line.calls),
                             std::to_string(line.duration_ns), "", ""});
    }
  }
  return text;
}

}  // namespace mfu
