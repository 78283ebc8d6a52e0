#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "mfu/sink.h"
#include "sinks/table.h"
#include "sinks/text_phases.h"
#include "sinks/words.h"

namespace mfu {

namespace {

std::string run_percent(double share) {
  // A program that hardly computes gets two digits instead of 0.0.
  if (share > 0 && share < 0.001) return fmt::format("{:.2g}%", share * 100);
  return fmt::format("{:.1f}%", share * 100);
}

std::string time_shown(std::chrono::nanoseconds duration) {
  return duration_text(static_cast<double>(duration.count()));
}

std::string run_line(std::string_view label, const std::string& text, const TextStyle& style) {
  constexpr std::size_t kIndent = 11;
  std::string left = fmt::format("{:<{}}", label, kIndent - 1);
  return inked(left, Ink::dim, style) + " " + wrapped(text, style.width, kIndent) + "\n";
}

Ink ink_of(double mfu) {
  Rating rating = rating_of({mfu});
  return rating == Rating::good ? Ink::green : rating == Rating::fair ? Ink::yellow : Ink::red;
}

// The device ran behind the host, and nobody asked when it ended a step: these are launch times.
bool only_launches(const RunReport& report) {
  return report.asynchronous && !report.device_timed && report.steps != 0;
}

std::string headline(const RunReport& report, const TextStyle& style) {
  if (!report.mfu) {
    std::string text = inked("MFU unknown", Ink::bold, style);
    if (report.mfu_wall)
      text += fmt::format("   {} of the whole run", run_percent(report.mfu_wall->value));
    return text + "\n";
  }
  bool complete = report.complete.value_or(false);
  bool launches = only_launches(report);  // the device may have taken longer, and MFU be less
  std::string text =
      inked((complete || launches ? "MFU " : "MFU at least ") + run_percent(report.mfu->value),
            Ink::bold, style);
  if (launches) {
    text += " by the host's clock";
  } else if (report.contradictions.empty() &&
             (complete || rating_of(*report.mfu) == Rating::good)) {
    text += "  " + inked(name_of(rating_of(*report.mfu)), ink_of(report.mfu->value), style);
  }
  if (report.hfu) text += "   HFU " + run_percent(report.hfu->value);
  if (report.mfu_wall)
    text += fmt::format("   of the whole run {}", run_percent(report.mfu_wall->value));
  return text + "\n";
}

std::string peak_text(const RunReport& report) {
  Precision shown = parse_precision(report.dtype).value_or(Precision::fp32);
  std::string text = report.reached ? rate_text(*report.reached, shown) + " of " : "";
  text +=
      fmt::format("{} × {} in {} ({}); FLOPs counted as executed, recomputation apart",
                  report.devices, rate_text(*report.peak, shown), report.dtype, report.peak_source);
  return text;
}

std::string steps_text(const RunReport& report) {
  std::string text = fmt::format("{} step{}", grouped(report.steps), report.steps == 1 ? "" : "s");
  if (report.ranks_expected.value_or(0) > report.ranks) {
    text += fmt::format(" on {} of {} ranks", report.ranks, *report.ranks_expected);
  } else if (report.ranks > 1) {
    text += fmt::format(" on {} ranks", report.ranks);
  }
  if (report.hosts > 1) text += fmt::format(" of {} hosts", report.hosts);
  if (report.step) {
    text += fmt::format(", {}{} each (p10 {}, p90 {}, p99 {})",
                        only_launches(report) ? "launched in " : "",
                        time_shown(report.step->median), time_shown(report.step->p10),
                        time_shown(report.step->p90), time_shown(report.step->p99));
  }
  if (report.tokens_per_s) {
    text += fmt::format(", {} tokens/s",
                        grouped(static_cast<std::uint64_t>(std::llround(*report.tokens_per_s))));
  }
  return text;
}

std::string time_text(const RunReport& report) {
  constexpr const char* kNames[kStepPhases] = {"waiting for data", "optimizer", "communication",
                                               "checkpoints", "validation"};
  std::string text;
  double rest = 1;
  bool all_known = true;
  for (std::size_t i = 0; i < kStepPhases; ++i) {
    if (!report.phase[i]) {
      all_known = false;
      continue;
    }
    rest -= report.phase[i]->value;
    if (report.phase[i]->value < 0.0005) continue;
    text += fmt::format("{} {}, ", kNames[i], run_percent(report.phase[i]->value));
  }
  if (!all_known) {
    return text.empty() ? text : text + "the rest is not split (by the device's clock)";
  }
  return text + fmt::format("forward, backward and the rest {}", run_percent(std::max(rest, 0.0)));
}

std::string ending_text(const RunEnding& ending) {
  std::string text = ending.signal ? fmt::format("by signal {}", *ending.signal)
                                   : fmt::format("with status {}", ending.status.value_or(0));
  if (ending.rank) text += fmt::format("; rank {} was killed", *ending.rank);
  return text;
}

std::string host_text(const RunReport& report) {
  constexpr const char* kNames[kHostParts] = {
      "computing",         "in the loader", "waiting for the device",
      "waiting for files", "sleeping",      "ready while others had the cores"};
  std::string text;
  for (std::size_t i = 0; i < kHostParts; ++i) {
    if (!report.host[i] || report.host[i]->value < 0.0005) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kNames[i],
                        run_percent(report.host[i]->value));
  }
  bool waits = report.host_idle && report.host_idle->value >= 0.01;
  if (waits && !text.empty()) text += ", waiting " + run_percent(report.host_idle->value);
  return text;
}

std::string coverage_text(const RunReport& report) {
  std::string text = fmt::format("{} operator calls counted", grouped(report.counted_calls));
  if (report.complete.value_or(false)) return text + ", none left out";
  text += "; MFU is a lower bound";
  for (const RunLibrary& each : report.libraries) {
    if (each.counted) continue;
    text += fmt::format("; {}{}{} is not counted ({})", each.name, each.version.empty() ? "" : " ",
                        each.version, each.why);
  }
  if (report.uncounted.empty()) return text;
  text += "; not counted: ";
  for (std::size_t i = 0; i < report.uncounted.size() && i < 4; ++i) {
    const OperatorTotal& each = report.uncounted[i];
    text += fmt::format("{}{} × {} ({})", i == 0 ? "" : ", ", grouped(each.calls), each.name,
                        each.reason);
  }
  if (report.uncounted.size() > 4) text += fmt::format(" and {} more", report.uncounted.size() - 4);
  return text;
}

// With more devices than this, one line each would be too much.
constexpr std::size_t kDevicesShown = 16;

std::string devices_text(const RunReport& report, const TextStyle& style) {
  std::string text;
  for (std::size_t i = 0; i < std::min(report.by_device.size(), kDevicesShown); ++i) {
    const RunDeviceReport& each = report.by_device[i];
    std::string line = each.index ? fmt::format("{} ({})", each.device, *each.index) : each.device;
    line += fmt::format(": {} of the model", count_text(each.flop.model_flop));
    if (each.mfu) line += ", MFU " + run_percent(each.mfu->value);
    if (!each.peak) line += ", its peak is not known";
    text += run_line("device", line, style);
  }
  if (report.by_device.size() > kDevicesShown) {
    text += run_line(
        "device", fmt::format("and {} more, in the JSON", report.by_device.size() - kDevicesShown),
        style);
  }
  return text;
}

std::string ranks_table(const RunReport& report, const TextStyle& style) {
  Table table({{"rank", Align::right},
               {"step", Align::right},
               {"its own", Align::right},
               {"communication", Align::right},
               {"data wait", Align::right},
               {""}});
  auto share = [](const std::optional<Fraction>& each) {
    return each ? run_percent(each->value) : std::string("-");
  };
  for (const RunRankReport& each : report.by_rank) {
    bool slow = each.rank && each.rank == report.slowest_rank;
    table.add({each.rank ? fmt::format("{}", *each.rank) : fmt::format("pid {}", each.pid),
               each.step ? time_shown(each.step->median) : "-",
               each.own ? time_shown(*each.own) : "-",
               share(each.phase[static_cast<std::size_t>(StepPhase::communication)]),
               share(each.phase[static_cast<std::size_t>(StepPhase::data_wait)]),
               slow ? "slowest" : each.host});
  }
  return "\n" + table.text(style) + "\n";
}

// The largest lines of the ledger of the explained steps.
std::string explained_text(const RunReport& report) {
  std::vector<RunExplanation::Line> lines = report.explain->ledger;
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.duration_ns > b.duration_ns; });
  std::string text = fmt::format("{} steps:", report.profiled_steps.size());
  for (std::size_t i = 0; i < lines.size() && i < 5; ++i) {
    if (lines[i].fraction < 0.005) break;
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", label_of(lines[i].line),
                        run_percent(lines[i].fraction));
  }
  const RunExplanation& explain = *report.explain;
  if (explain.cores_available > 0) {
    text +=
        fmt::format("; {:.1f} of {} cores busy, {} {}", explain.cores_used, explain.cores_available,
                    explain.threads, explain.threads == 1 ? "thread" : "threads");
  }
  if (!explain.report.empty()) text += "; " + explain.report;
  return text;
}

// The first finding. An explained run shows three, with their evidence.
std::string findings_lines(const RunReport& report, const TextStyle& style) {
  std::string text;
  std::size_t most = report.explain ? 3 : 1;
  for (std::size_t i = 0; i < report.findings.size() && i < most; ++i) {
    const Finding& each = report.findings[i];
    FindingWords words = finding_words(each);
    std::string line = words.title + ". ";
    for (const std::string& shown : words.evidence) line += shown + ". ";
    line += words.fix;
    if (report.mfu && each.gain_ceiling_mfu.value_or(0) > 0) {
      line +=
          fmt::format(" (MFU {} at most)", run_percent(report.mfu->value + *each.gain_ceiling_mfu));
    }
    text += run_line(i == 0 ? "first" : "then", line, style);
  }
  return text;
}

}  // namespace

std::string to_text(const RunReport& report, const TextStyle& style) {
  std::string text = headline(report, style);
  if (report.peak) text += run_line("peak", peak_text(report), style);
  if (report.ceiling && report.of_ceiling) {
    Precision shown = parse_precision(report.dtype).value_or(Precision::fp32);
    text += run_line(
        "ceiling",
        fmt::format("{} by {}, measured: {} of it is reached", rate_text(*report.ceiling, shown),
                    report.ceiling_source, run_percent(report.of_ceiling->value)),
        style);
  }
  if (report.steps > 0) text += run_line("steps", steps_text(report), style);
  if (std::string time = time_text(report); !time.empty()) text += run_line("time", time, style);
  for (const auto& [label, line] : phase_lines(report)) text += run_line(label, line, style);
  if (std::string host = host_text(report); !host.empty()) text += run_line("host", host, style);
  if (report.flop) {
    std::string flop = count_text(report.flop->model_flop) + " of the model";
    if (report.flop->hardware_flop > report.flop->model_flop) {
      flop += fmt::format(", {} executed", count_text(report.flop->hardware_flop));
    }
    if (report.flop->recomputed_flop > FlopCount(0)) {
      flop += fmt::format(", {} of them recomputation", count_text(report.flop->recomputed_flop));
    }
    text += run_line("FLOPs", flop, style);
    text += run_line("coverage", coverage_text(report), style);
  }
  if (report.by_device.size() > 1) text += devices_text(report, style);
  if (report.by_rank.size() > 1) text += ranks_table(report, style);
  if (report.explain) text += run_line("explained", explained_text(report), style);
  text += findings_lines(report, style);
  if (report.stopped_after_steps) {
    std::string steps = fmt::format("{} steps", grouped(*report.stopped_after_steps));
    text += run_line("ended", "after the " + steps + " that were asked for", style);
  } else if (report.ended && (report.ended->status != 0 || report.ended->rank)) {
    text += run_line("ended", ending_text(*report.ended), style);
  }
  for (const Note& each : report.contradictions) {
    text += inked("contradiction", Ink::red, style) + " " +
            wrapped(words_of(each), style.width, 14) + "\n";
  }
  for (const Note& each : report.notes) text += run_line("note", words_of(each), style);
  return text;
}

std::string live_line(const RunReport& report) {
  if (report.steps == 0) {
    if (std::string phases = live_phases(report); !phases.empty()) return phases;
    return report.ranks == 0 ? "no step yet" : "";
  }
  std::string text = fmt::format("step {}", grouped(report.steps));
  if (report.step) text += fmt::format("  {}", time_shown(report.step->median));
  if (report.tokens_per_s) {
    text += fmt::format("  {} tokens/s",
                        grouped(static_cast<std::uint64_t>(std::llround(*report.tokens_per_s))));
  }
  if (report.mfu) text += "  MFU " + run_percent(report.mfu->value);
  if (report.hfu) text += "  HFU " + run_percent(report.hfu->value);
  const auto& wait = report.phase[static_cast<std::size_t>(StepPhase::data_wait)];
  if (wait) text += "  data wait " + run_percent(wait->value);
  for (const RunShare& each : report.shares) {
    if (each.part != RunShare::Part::generation || each.of_time.value < 0.005) continue;
    text += "  generation " + run_percent(each.of_time.value);
    if (each.mfu) text += " at MFU " + run_percent(each.mfu->value);
    if (each.mbu) text += " MBU " + run_percent(each.mbu->value);
  }
  return text;
}

}  // namespace mfu
