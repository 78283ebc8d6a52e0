#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "mfu/sink.h"
#include "mfu/steps.h"
#include "sinks/table.h"

namespace mfu {

namespace {

std::string signed_percent(double share) {
  return fmt::format("{}{:.1f}%", share > 0 ? "+" : "", share * 100);
}

// "12.1 ms ± 0.3 ms", or only the value if it was measured once.
template <typename Format>
std::string with_spread(const Estimate& estimate, const TextStyle& style, Format format) {
  std::string text = format(estimate.value);
  std::optional<Range> range = range_of(estimate);
  if (!range) return text;
  return text + (style.unicode ? " ± " : " +- ") + format((range->high - range->low) / 2);
}

std::string time_of(double ns) {
  return duration_text(ns);
}

std::string percent_of(double share) {
  return fmt::format("{:.{}f}%", share * 100, std::fabs(share) < 0.09995 ? 2 : 1);
}

std::string rate_of(double per_s) {
  return per_s < 100 ? fmt::format("{:.3g}", per_s)
                     : grouped(static_cast<std::uint64_t>(std::llround(per_s)));
}

template <typename Format>
void add_line(Table& table, const char* name, const std::optional<Estimate>& before,
              const std::optional<Estimate>& after, const TextStyle& style, Format format) {
  if (!before || !after) return;
  double change = before->value > 0 ? after->value / before->value - 1 : 0;
  table.add({name, with_spread(*before, style, format), with_spread(*after, style, format),
             signed_percent(change)});
}

std::string headline(const ComparisonReport& report, const TextStyle& style) {
  double gain = report.gain_fraction;
  std::string by = gain >= 0 ? fmt::format("{:.1f}% faster", gain * 100)
                             : fmt::format("{:.1f}% slower", report.slower_fraction() * 100);
  if (!report.verdict) {
    return inked("no verdict", Ink::bold, style) + fmt::format(": {} a {}\n", by, report.unit);
  }
  // The range is in the same quantity as the number before it: speed if faster, time if slower.
  auto added_time = [](double faster) { return 1 / (1 + faster) - 1; };
  std::string range =
      gain >= 0 ? fmt::format("speed {} to {}", signed_percent(report.gain_range->low),
                              signed_percent(report.gain_range->high))
                : fmt::format("time {} to {}", signed_percent(added_time(report.gain_range->high)),
                              signed_percent(added_time(report.gain_range->low)));
  switch (*report.verdict) {
    case Verdict::better:
      return inked("better", Ink::green, style) +
             fmt::format(": {} a {} ({})\n", by, report.unit, range);
    case Verdict::worse:
      return inked("worse", Ink::red, style) +
             fmt::format(": {} a {} ({})\n", by, report.unit, range);
    case Verdict::same:
      break;
  }
  return inked("same", Ink::bold, style) +
         fmt::format(": no difference beyond the noise ({} a {}, {})\n", by, report.unit, range);
}

std::string labels_of(const ComparisonReport& report, const std::vector<std::size_t>& rows) {
  std::string text;
  for (std::size_t i : rows) {
    const ComparisonRow& row = report.rows[i];
    std::string name = row.name;
    std::replace(name.begin(), name.end(), '_', ' ');
    text += fmt::format("{}{} by {}", text.empty() ? "" : ", ", name,
                        duration_text(std::fabs(row.after_ns.value - row.before_ns.value)));
  }
  return text;
}

}  // namespace

std::string to_text(const ComparisonReport& report, const TextStyle& style) {
  std::string text = headline(report, style) + '\n';
  const char* of = report.by_step ? "step" : "window";
  Table whole({{""}, {"before", Align::right}, {"after", Align::right}, {"change", Align::right}});
  add_line(whole, of, report.before_ns, report.after_ns, style, time_of);
  add_line(whole, "tokens/s", report.before_tokens_per_s, report.after_tokens_per_s, style,
           rate_of);
  add_line(whole, "MFU", report.before_mfu, report.after_mfu, style, percent_of);
  text += whole.text(style);
  Table parts({{fmt::format("of a {}", of)},
               {"before", Align::right},
               {"", Align::right},
               {"after", Align::right},
               {"", Align::right},
               {"change", Align::right}});
  for (const ComparisonRow& row : report.rows) {
    if (row.before_ns.value <= 0 && row.after_ns.value <= 0) continue;
    std::string name = row.name;
    std::replace(name.begin(), name.end(), '_', ' ');
    parts.add({name, with_spread(row.before_ns, style, time_of), percent_of(row.before_fraction),
               with_spread(row.after_ns, style, time_of), percent_of(row.after_fraction),
               duration_text(row.after_ns.value - row.before_ns.value)});
  }
  if (!parts.empty()) text += '\n' + parts.text(style);
  text += '\n';
  if (!report.less.empty()) text += paragraph("less:", labels_of(report, report.less), style);
  if (!report.more.empty()) text += paragraph("more:", labels_of(report, report.more), style);
  if (report.by_step) {
    text += paragraph("how:",
                      "means of the steps after warm-up, with 95% ranges from the means of ten "
                      "stretches of each run; what differs between two runs of the same program is "
                      "not in them",
                      style);
  }
  if (report.fail_over) {
    text +=
        fmt::format("{}: {} where {} was allowed\n", report.failed ? "failed" : "passed",
                    signed_percent(report.slower_fraction()), signed_percent(*report.fail_over));
  }
  for (const Note& note : report.notes) text += paragraph("note:", words_of(note), style);
  return text;
}

}  // namespace mfu
