#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "mfu/sink.h"
#include "sinks/table.h"
#include "sinks/words.h"

namespace mfu {

namespace {

std::string need_percent(double share) {
  return fmt::format("{:.1f}%", share * 100);
}

std::string readable(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string step_line(const NeedReport& report) {
  const Workload& work = report.work;
  std::string shape = work.lengths.empty()
                          ? fmt::format("batch {} × {} tokens", work.batch, grouped(work.sequence))
                          : fmt::format("{} sequences", work.lengths.size());
  if (work.context > 0) shape += fmt::format(", {} in the cache", grouped(work.context));
  if (work.images > 0) shape += fmt::format(", {} images", work.images);
  return fmt::format("one {} step: {} = {} tokens", name_of(work.phase), shape,
                     grouped(report.tokens));
}

bool fits(const std::string& text, std::size_t width) {
  std::size_t start = 0;
  while (start < text.size()) {
    std::size_t end = std::min(text.find('\n', start), text.size());
    if (display_width(std::string_view(text).substr(start, end - start)) > width) return false;
    start = end + 1;
  }
  return true;
}

// A short form, such as "8.03 B", if 8,030,261,248 does not fit.
std::string short_count(std::uint64_t count) {
  constexpr std::string_view kUnits[] = {"", " k", " M", " B", " T"};
  double left = static_cast<double>(count);
  std::size_t unit = 0;
  while (left >= 1000 && unit + 1 < std::size(kUnits)) {
    left /= 1000;
    ++unit;
  }
  return unit == 0 ? grouped(count) : fmt::format("{:.3g}{}", left, kUnits[unit]);
}

// How much of the table fits.
enum class Room { ample, no_bars, short_counts };

std::string parts_table(const NeedReport& report, const TextStyle& style, Room room) {
  auto count = [room](std::uint64_t parameters) {
    if (parameters == 0) return std::string("-");
    return room == Room::short_counts ? short_count(parameters) : grouped(parameters);
  };
  Table table({{"part"},
               {room == Room::short_counts ? "params" : "parameters", Align::right},
               {"FLOP", Align::right},
               {"share", Align::right},
               {""}});
  FlopCount total;
  for (FlopCount each : report.flop_by_part.values) total += each;
  for (std::size_t i = 0; i < kPartCount; ++i) {
    Part part = static_cast<Part>(i);
    // Multi-token prediction is not among the model's parameters. It has its own line below the
    // total.
    std::uint64_t parameters = part == Part::mtp ? 0 : report.parameters.by_part[part];
    FlopCount flop = report.flop_by_part[part];
    if (parameters == 0 && flop == FlopCount(0)) continue;
    double share = total == FlopCount(0) ? 0 : flop.to_double() / total.to_double();
    std::string bar;
    long steps = room == Room::ample ? std::lround(share * 30) : 0;
    for (long step = 0; step < steps; ++step) bar += style.unicode ? "█" : "#";
    table.add({readable(name_of(part)), count(parameters),
               flop == FlopCount(0) ? "-" : count_text(flop), need_percent(share), bar});
  }
  table.add({"total", count(report.parameters.total), count_text(total), "", ""});
  if (std::uint64_t beside = report.parameters.by_part[Part::mtp]; beside > 0) {
    table.add({"not in total: mtp", count(beside), "", "", ""});
  }
  return table.text(style);
}

std::string parts_table(const NeedReport& report, const TextStyle& style) {
  for (Room room : {Room::ample, Room::no_bars}) {
    std::string text = parts_table(report, style, room);
    if (fits(text, style.width)) return text;
  }
  return parts_table(report, style, Room::short_counts);
}

std::string rl_text(const RlReport& rl, const TextStyle& style) {
  Table table({{"pass"}, {"times", Align::right}, {"FLOP", Align::right}});
  for (const RlReport::Pass& pass : rl.passes) {
    table.add({std::string(name_of(pass.role)), grouped(pass.times), count_text(pass.flop)});
  }
  table.add({"total", "", count_text(rl.total)});
  std::string head = fmt::format(
      "one step of reinforcement learning: {} sequences of {} prompt and {} response "
      "tokens",
      grouped(rl.sequences), grouped(rl.prompt), grouped(rl.response));
  return "\n" + wrapped(head, style.width, 0) + "\n\n" + table.text(style);
}

std::string conventions_table(const NeedReport& report, const TextStyle& style) {
  Table table(
      {{"convention"}, {"FLOP", Align::right}, {"to exact", Align::right}, {"what it counts"}});
  for (const ConventionReport& each : report.conventions) {
    std::string why =
        each.count.why.empty()
            ? std::string(describe(each.convention).why)
            : words_of({"why_convention", {{"why", each.count.why}, {"type", report.type}}});
    table.add({std::string(describe(each.convention).name),
               each.count.model_flop ? count_text(*each.count.model_flop) : "-",
               each.ratio ? fmt::format("{:.3f}", *each.ratio) : "-", why});
  }
  return "\n" + table.text(style);
}

std::string tree_table(const NeedReport& report, const TextStyle& style) {
  Table table({{"layer"},
               {"layers", Align::right},
               {"parameters of one", Align::right},
               {"forward FLOP of one", Align::right}});
  for (const TreeLine& line : report.tree) {
    table.add({std::string(line.depth * 2, ' ') + (line.name.empty() ? "(model)" : line.name),
               line.depth == 0 ? grouped(line.layers) : "",
               line.parameters > 0 ? grouped(line.parameters) : "-",
               line.forward_flop > FlopCount(0) ? count_text(line.forward_flop) : "-"});
  }
  return "\n" + table.text(style);
}

std::string utilization_text(const NeedReport& report, const TextStyle& style) {
  const Utilization& used = *report.utilization;
  Ink ink = used.rating == Rating::good   ? Ink::green
            : used.rating == Rating::fair ? Ink::yellow
                                          : Ink::red;
  std::string text =
      "\n" + inked(fmt::format("MFU {}", need_percent(used.mfu.value)), Ink::bold, style) + "  " +
      (used.contradictions.empty() ? inked(name_of(used.rating), ink, style) : "");
  if (used.hfu) text += fmt::format("   HFU {}", need_percent(used.hfu->value));
  if (used.mbu) text += fmt::format("   MBU {}", need_percent(used.mbu->value));
  text += '\n';
  text += wrapped(fmt::format("{} of {} × {} ({}), counted by {}",
                              rate_text(used.reached, Precision::bf16), used.devices,
                              rate_text(used.peak, Precision::bf16), report.peak->source,
                              describe(report.convention).name),
                  style.width, 0) +
          "\n";
  for (const Note& contradiction : used.contradictions) {
    text += inked("contradiction", Ink::red, style) + " " +
            wrapped(words_of(contradiction), style.width, 14) + "\n";
  }
  for (const PublishedRun& run : report.like) {
    text += paragraph("published",
                      fmt::format("{}: {} on {} × {} (convention: {}; {})", run.model,
                                  need_percent(run.mfu.value), run.devices, run.device,
                                  run.convention, run.source),
                      style);
  }
  return text;
}

std::string bytes_text_of(const NeedReport& report) {
  const ByteNeed& bytes = *report.bytes;
  std::string text = fmt::format("weights {}", bytes_text({bytes.weights}));
  // A training step or a plain forward pass keeps no cache.
  bool caches = report.work.phase == Phase::prefill || report.work.phase == Phase::decode;
  if (bytes.kv_cache_per_token > 0) {
    text += fmt::format("   cache {} a token{}", bytes_text({bytes.kv_cache_per_token}),
                        caches ? "" : " in inference");
  }
  if (caches && bytes.kv_cache > 0) {
    text += fmt::format(", {} after the step", bytes_text({bytes.kv_cache}));
  }
  if (bytes.step_read) {
    text += fmt::format("   the step reads {} and writes {}", bytes_text({*bytes.step_read}),
                        bytes_text({bytes.step_written.value_or(0)}));
  }
  return text;
}

std::string roofline_text(const Roofline& roof) {
  return fmt::format("{:.1f} FLOP a byte against {:.1f} of the device: bound by {}{}",
                     roof.flop_per_byte, roof.ridge_flop_per_byte,
                     roof.compute_bound ? "compute" : "memory",
                     roof.compute_from_batch
                         ? fmt::format("; by compute from batch {} on", *roof.compute_from_batch)
                         : "");
}

std::string serving_text(const ServingNeed& need) {
  std::string text = need.roof_tokens_per_s
                         ? fmt::format("at the roof {} tokens/s",
                                       grouped(static_cast<std::uint64_t>(*need.roof_tokens_per_s)))
                         : std::string("the roof is not known");
  if (need.drafted > 0) {
    text += fmt::format(", {} drafted tokens verified a step and {:g} of them kept", need.drafted,
                        need.accepted);
  }
  if (need.chunk > 0) {
    text += fmt::format(", in {} chunks that read {}", need.passes,
                        bytes_text(Bytes{need.moved_bytes}));
  }
  return text;
}

std::string lines(const std::string& text, const TextStyle& style) {
  if (display_width(text) <= style.width) return text + "\n";
  return wrapped(text, style.width, 2) + "\n";
}

// Prints the first words in bold, on as many lines as needed.
std::string headline(const std::string& bold, const std::string& rest, const TextStyle& style) {
  std::string whole = lines(bold + rest, style);
  if (!whole.starts_with(bold)) return whole;
  return inked(bold, Ink::bold, style) + whole.substr(bold.size());
}

}  // namespace

std::string to_text(const NeedReport& report, const TextStyle& style) {
  std::string head =
      fmt::format("  {}  {} parameters", report.architecture, grouped(report.parameters.total));
  if (report.parameters.active != report.parameters.total) {
    head += fmt::format(", {} active", grouped(report.parameters.active));
  }
  std::string text = headline(report.name, head, style) + lines(step_line(report), style) + "\n";
  if (report.model_flop) {
    std::string rest;
    if (report.flop_per_token) {
      rest += fmt::format(
          "   {} a token",
          count_text(FlopCount::from_wide(static_cast<Uint128>(*report.flop_per_token))));
    }
    if (report.hardware_flop && !(*report.hardware_flop == *report.model_flop)) {
      rest += fmt::format("   {} with recomputation", count_text(*report.hardware_flop));
    }
    rest += fmt::format("   (convention: {})", describe(report.convention).name);
    text += headline(count_text(*report.model_flop), rest, style) + "\n";
  }
  text += parts_table(report, style);
  if (report.rl) text += rl_text(*report.rl, style);
  if (!report.tree.empty()) text += tree_table(report, style);
  if (!report.conventions.empty()) text += conventions_table(report, style);
  if (report.bytes) text += "\n" + lines(bytes_text_of(report), style);
  if (report.roofline) text += lines(roofline_text(*report.roofline), style);
  if (report.serving) text += lines(serving_text(*report.serving), style);
  if (report.utilization) text += utilization_text(report, style);
  for (const Note& assumption : report.assumptions)
    text += paragraph("assumed", words_of(assumption), style);
  for (const Note& note : with_peak(report.notes, report.peak.value_or(ChosenPeak())))
    text += paragraph("note   ", words_of(note), style);
  return text;
}

std::string to_text(const ConversionReport& report, const TextStyle& style) {
  return fmt::format("{} by {} is {} by {} (× {:.4f})\n", need_percent(report.mfu_from.value),
                     describe(report.from).name,
                     inked(need_percent(report.mfu_to.value), Ink::bold, style),
                     describe(report.to).name, report.ratio);
}

std::string to_text(const PlanReport& report, const TextStyle& style) {
  std::string text =
      wrapped(fmt::format("{} at {} MFU of {} ({})", count_text(report.total_flop),
                          need_percent(report.mfu.value),
                          rate_text(*report.peak.rate, Precision::bf16), report.peak.source),
              style.width, 0) +
      "\n\n";
  Table table({{"devices", Align::right},
               {"days", Align::right},
               {"device-hours", Align::right},
               {"cost", Align::right},
               {"energy", Align::right},
               {"state a device", Align::right},
               {"of memory", Align::right}});
  for (const Plan& plan : report.plans) {
    table.add({grouped(plan.devices), fmt::format("{:.1f}", plan.days),
               grouped(static_cast<std::uint64_t>(std::llround(plan.device_hours))),
               plan.cost ? grouped(static_cast<std::uint64_t>(std::llround(*plan.cost))) : "-",
               plan.energy_kwh ? fmt::format("{} MWh", grouped(static_cast<std::uint64_t>(
                                                           std::llround(*plan.energy_kwh / 1000))))
                               : "-",
               plan.state_per_device ? bytes_text(*plan.state_per_device) : "-",
               plan.state_of_memory ? need_percent(plan.state_of_memory->value) +
                                          (plan.state_of_memory->value > 1 ? " does not fit" : "")
                                    : "-"});
  }
  text += table.text(style);
  for (const std::string& assumption : report.assumptions)
    text += paragraph("assumed", assumption, style);
  for (const Note& note : with_peak({}, report.peak))
    text += paragraph("assumed", words_of(note), style);
  return text;
}

}  // namespace mfu
