#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/text.h"
#include "mfu/sink.h"
#include "sinks/table.h"
#include "sinks/words.h"

namespace mfu {

namespace {

constexpr std::size_t kLabelWidth = 23;

std::string share_percent(double share) {
  double value = share * 100;
  return fmt::format("{:.{}f}%", value, std::fabs(value) < 9.995 ? 2 : 1);
}

// Colours of the lines: good, work, or waiting.
Ink ink_of(LedgerLine line) {
  switch (line) {
    case LedgerLine::matmul_at_peak:
      return Ink::green;
    case LedgerLine::matmul_below_peak:
    case LedgerLine::matmul_flop_unknown:
    case LedgerLine::other_kernels:
    case LedgerLine::recomputation:
      return Ink::cyan;
    case LedgerLine::exposed_communication_wait:
    case LedgerLine::exposed_communication_transfer:
    case LedgerLine::exposed_copy:
      return Ink::yellow;
    default:
      return Ink::red;
  }
}

std::string bar(double share, std::size_t width, const TextStyle& style) {
  double cells = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
  std::size_t whole = static_cast<std::size_t>(cells);
  std::string text;
  if (!style.unicode) {
    text.assign(static_cast<std::size_t>(std::round(cells)), '#');
    return text;
  }
  static constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  for (std::size_t i = 0; i < whole; ++i) text += "█";
  std::size_t eighths = static_cast<std::size_t>((cells - static_cast<double>(whole)) * 8);
  text += kEighths[eighths];
  return text;
}

std::string padded(std::string_view text, std::size_t width) {
  std::size_t wide = display_width(text);
  return std::string(text) + std::string(width > wide ? width - wide : 0, ' ');
}

std::string right(std::string_view text, std::size_t width) {
  std::size_t wide = display_width(text);
  return std::string(width > wide ? width - wide : 0, ' ') + std::string(text);
}

std::string ledger_text(const std::vector<LedgerRow>& rows, const TextStyle& style) {
  constexpr std::size_t kNumbers = 2 + kLabelWidth + 8 + 10 + 2;
  std::size_t room =
      style.width > kNumbers + 10 ? std::min<std::size_t>(style.width - kNumbers, 60) : 10;
  double most = 0;
  for (const LedgerRow& row : rows) most = std::max(most, row.fraction);
  double scale = most > 0 ? 1 / std::max(most, 0.25) : 1;
  std::string text;
  for (const LedgerRow& row : rows) {
    if (row.duration_ns == 0) continue;
    std::string line = "  " + padded(label_of(row.line), kLabelWidth) +
                       right(share_percent(row.fraction), 8) +
                       right(duration_text(static_cast<double>(row.duration_ns)), 10) + "  ";
    std::string drawn = bar(row.fraction * scale, room, style);
    text += line + inked(drawn, ink_of(row.line), style) + "\n";
  }
  return text;
}

std::string labelled(std::string_view label, const std::string& text, const TextStyle& style) {
  return inked(label, Ink::dim, style) + " " +
         wrapped(text, style.width, display_width(label) + 1) + "\n";
}

std::string gain_text(const Finding& finding, std::optional<double> mfu) {
  std::string time = duration_text(static_cast<double>(finding.gain_ceiling_ns));
  if (!mfu || finding.gain_ceiling_mfu.value_or(0) <= 0) {
    return fmt::format("could win at most {}", time);
  }
  return fmt::format("could win at most {}: MFU {} to {}", time, share_percent(*mfu),
                     share_percent(*mfu + *finding.gain_ceiling_mfu));
}

std::string findings_text(const std::vector<Finding>& findings, std::optional<double> mfu,
                          const TextStyle& style) {
  std::string text;
  std::size_t number = 0;
  for (const Finding& finding : findings) {
    std::string head = fmt::format("{}. ", ++number);
    FindingWords words = finding_words(finding);
    text += inked(head, Ink::bold, style) +
            inked(wrapped(words.title, style.width, head.size()), Ink::bold, style) + "\n";
    text += "   " + inked(gain_text(finding, mfu), Ink::dim, style) + "\n";
    for (const std::string& line : words.evidence) {
      text +=
          "   " + std::string(style.unicode ? "· " : "- ") + wrapped(line, style.width, 5) + "\n";
    }
    text +=
        "   " + inked("fix", Ink::green, style) + " " + wrapped(words.fix, style.width, 7) + "\n";
  }
  return text;
}

std::string window_text(const Window& window) {
  std::string text = duration_text(static_cast<double>(window.duration_ns()));
  if (window.policy == WindowPolicy::steps) {
    return fmt::format("{} step{}, {}", window.steps, window.steps == 1 ? "" : "s", text);
  }
  return window.policy == WindowPolicy::all ? "whole trace, " + text : "chosen window, " + text;
}

std::string mfu_line(std::optional<double> mfu, std::optional<double> hfu,
                     const std::optional<Rating>& rating, const TextStyle& style) {
  if (!mfu) return inked("MFU unknown", Ink::bold, style) + "\n";
  std::string text = inked(fmt::format("MFU {}", share_percent(*mfu)), Ink::bold, style);
  if (rating) {
    Ink ink = *rating == Rating::good   ? Ink::green
              : *rating == Rating::fair ? Ink::yellow
                                        : Ink::red;
    text += "  " + inked(name_of(*rating), ink, style);
  } else if (*mfu > 1) {
    text += "  " + inked("cannot be", Ink::red, style);
  } else {
    text += "  at least";
  }
  if (hfu && std::fabs(*hfu - *mfu) > 0.0005) text += fmt::format("   HFU {}", share_percent(*hfu));
  return text + "\n";
}

std::string coverage_text(const RankAttribution& rank) {
  const AttributionCoverage& coverage = rank.coverage;
  std::string text;
  auto share = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.0f}%", *value * 100) : std::string("none");
  };
  if (rank.cpu) {
    text = fmt::format("{} of operator time has shapes", share(coverage.with_shapes_fraction));
  } else {
    text = fmt::format("{} device events; of their time {} linked to a launch, {} with shapes",
                       grouped(coverage.gpu_events), share(coverage.linked_fraction),
                       share(coverage.with_shapes_fraction));
    if (coverage.graph_launched_fraction.value_or(0) > 0) {
      text += fmt::format(", {} from graphs", share(coverage.graph_launched_fraction));
    }
  }
  if (coverage.clipped_events > 0) {
    text += fmt::format("; {} clipped", grouped(coverage.clipped_events));
  }
  if (coverage.skipped_events > 0) {
    text += fmt::format("; {} unreadable events skipped", grouped(coverage.skipped_events));
  }
  return text;
}

std::string device_text(const RankAttribution& rank) {
  std::string name = rank.device_name.empty() ? "device not named" : rank.device_name;
  if (!rank.peak) return name;
  Precision type = rank.precision.value_or(Precision::fp32);
  return fmt::format("{}, {} peak {}", name, name_of(type), rate_text(*rank.peak, type));
}

std::string_view above_peak_mark(const OperatorLine& line) {
  if (above_peak(line).empty()) return "";
  return above_peak(line) == "contradiction" ? "cannot be: " : "multiplies less: ";
}

std::string operators_text(const RankAttribution& rank, const TextStyle& style) {
  constexpr std::size_t kShown = 5;
  Table table({{"operator"},
               {"type"},
               {"calls", Align::right},
               {"time", Align::right},
               {"of peak", Align::right},
               {"shapes"}});
  for (std::size_t i = 0; i < std::min(kShown, rank.operators.size()); ++i) {
    const OperatorLine& line = rank.operators[i];
    table.add({line.name.substr(0, 36), line.dtype, grouped(line.calls),
               duration_text(static_cast<double>(line.duration_ns)),
               line.peak_fraction ? fmt::format("{}{:.0f}%", above_peak_mark(line),
                                                line.peak_fraction->value * 100)
                                  : "-",
               line.shapes});
  }
  return table.empty() ? "" : "\n" + table.text(style);
}

// A name may contain anything, even escape sequences.
std::string file_name(const std::string& path) {
  return printable(path.substr(path.rfind('/') + 1), 255);
}

// The ranks to show. If there are many, only those that the others wait for, or, if no rank waits,
// those with the lowest MFU.
std::vector<std::size_t> shown_ranks(const ExplainReport& report) {
  constexpr std::size_t kAllShown = 64, kShown = 16;
  std::vector<std::size_t> ranks(report.ranks.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  if (ranks.size() <= kAllShown) return ranks;
  auto share = [&](std::size_t i) {
    const RankAttribution& rank = report.ranks[i].found;
    if (!report.slowest) return rank.mfu.value_or(1);
    return static_cast<double>(rank.ledger[LedgerLine::exposed_communication_wait]) /
           static_cast<double>(std::max<std::int64_t>(rank.window.duration_ns(), 1));
  };
  std::stable_sort(ranks.begin(), ranks.end(), [&](std::size_t a, std::size_t b) {
    bool slowest_a = report.slowest == a, slowest_b = report.slowest == b;
    return slowest_a != slowest_b ? slowest_a : share(a) < share(b);
  });
  ranks.resize(kShown);
  return ranks;
}

std::string ranks_text(const ExplainReport& report, const TextStyle& style) {
  Table table({{"rank"},
               {"MFU", Align::right},
               {"window", Align::right},
               {"kernels", Align::right},
               {"communication", Align::right},
               {"waiting", Align::right},
               {"idle", Align::right},
               {"file"}});
  std::vector<std::size_t> shown = shown_ranks(report);
  for (std::size_t i : shown) {
    const RankAttribution& rank = report.ranks[i].found;
    double window = static_cast<double>(std::max<std::int64_t>(rank.window.duration_ns(), 1));
    auto share = [&](std::int64_t ns) { return share_percent(static_cast<double>(ns) / window); };
    const Ledger& ledger = rank.ledger;
    std::string name = rank.rank ? std::to_string(*rank.rank) : "?";
    if (report.slowest == i) name += " (slowest)";
    table.add({name, rank.mfu ? share_percent(*rank.mfu) : "-", duration_text(window),
               share(ledger.matmul_ns() + ledger[LedgerLine::recomputation] +
                     ledger[LedgerLine::other_kernels]),
               share(ledger[LedgerLine::exposed_communication_transfer]),
               share(ledger[LedgerLine::exposed_communication_wait]), share(ledger.idle_ns()),
               file_name(rank.path)});
  }
  std::string text = table.text(style);
  if (shown.size() == report.ranks.size()) return text;
  return text + fmt::format("{} of {} ranks, {}; --csv and --json have all\n", shown.size(),
                            report.ranks.size(),
                            report.slowest ? "those that the others wait for" : "by lowest MFU");
}

std::string published_text(const ExplainReport& report, const TextStyle& style) {
  if (report.like.empty()) return "";
  std::string list;
  for (const PublishedRun& run : report.like) {
    list += fmt::format("{}{} {:.0f}% ({} × {})", list.empty() ? "" : ", ", run.model,
                        run.mfu.value * 100, run.devices, run.device);
  }
  return labelled("published:", list, style);
}

}  // namespace

std::string to_text(const ExplainReport& report, const TextStyle& style) {
  const RankReport& first = report.ranks.front();
  bool several = report.ranks.size() > 1;
  std::string text;
  std::string what =
      several ? fmt::format("{} devices", report.ranks.size()) : file_name(first.found.path);
  text += mfu_line(report.mfu, several ? std::nullopt : first.found.hfu, report.rating, style);
  text += wrapped(fmt::format(
                      "{}: {}; {}", what, device_text(first.found),
                      several ? fmt::format("Σ of windows {}",
                                            duration_text(static_cast<double>(report.duration_ns)))
                              : window_text(first.found.window)),
                  style.width, 0) +
          "\n";
  text += published_text(report, style);
  text += "\n" + inked("Where the time went", Ink::bold, style) + "\n";
  text += ledger_text(report.rows, style);
  if (several) text += "\n" + ranks_text(report, style);
  text += "\n" +
          inked(report.findings.empty() ? "Nothing stands out to change"
                                        : "What to change, by what it could win at most",
                Ink::bold, style) +
          "\n";
  text += findings_text(report.findings, report.mfu, style);
  if (!several) text += operators_text(first.found, style);
  text += "\n" + labelled("covered:", coverage_text(first.found), style);
  if (report.partial) {
    text += labelled("partial:", "the file ends early; this is of what could be read", style);
  }
  for (const std::string& note : few_words(report.notes)) text += labelled("note:", note, style);
  return text;
}

}  // namespace mfu
