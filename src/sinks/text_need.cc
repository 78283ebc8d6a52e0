#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "mfu/sink.h"

namespace mfu {

namespace {

std::string percent(double share) {
  return fmt::format("{:.1f}%", share * 100);
}

std::string paragraph(std::string_view label, const std::string& text, const TextStyle& style) {
  return inked(label, Ink::dim, style) + " " +
         wrapped(text, style.width, display_width(label) + 1) + "\n";
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

std::string parts_table(const NeedReport& report, const TextStyle& style) {
  Table table({{"part"},
               {"parameters", Align::right},
               {"FLOP", Align::right},
               {"share", Align::right},
               {""}});
  FlopCount total;
  for (FlopCount each : report.flop_by_part.values) total += each;
  for (std::size_t i = 0; i < kPartCount; ++i) {
    Part part = static_cast<Part>(i);
    std::uint64_t parameters = report.parameters.by_part[part];
    FlopCount flop = report.flop_by_part[part];
    if (parameters == 0 && flop == FlopCount(0)) continue;
    double share = total == FlopCount(0) ? 0 : flop.to_double() / total.to_double();
    std::string bar;
    for (int step = 0; step < std::lround(share * 30); ++step) bar += style.unicode ? "█" : "#";
    table.add({readable(name_of(part)), parameters == 0 ? "-" : grouped(parameters),
               flop == FlopCount(0) ? "-" : count_text(flop), percent(share), bar});
  }
  table.add({"total", grouped(report.parameters.total), count_text(total), "", ""});
  return table.text(style);
}

std::string conventions_table(const NeedReport& report, const TextStyle& style) {
  Table table(
      {{"convention"}, {"FLOP", Align::right}, {"to exact", Align::right}, {"what it counts"}});
  for (const ConventionReport& each : report.conventions) {
    std::string why =
        each.count.note.empty() ? std::string(describe(each.convention).why) : each.count.note;
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
      "\n" + inked(fmt::format("MFU {}", percent(used.mfu.value)), Ink::bold, style) + "  " +
      (used.contradictions.empty() ? inked(name_of(used.rating), ink, style) : "");
  if (used.hfu) text += fmt::format("   HFU {}", percent(used.hfu->value));
  if (used.mbu) text += fmt::format("   MBU {}", percent(used.mbu->value));
  text += "\n";
  text += wrapped(fmt::format("{} of {} × {} ({}), counted by {}",
                              rate_text(used.reached, Precision::bf16), used.devices,
                              rate_text(used.peak, Precision::bf16), used.peak_source,
                              describe(report.convention).name),
                  style.width, 0) +
          "\n";
  for (const std::string& contradiction : used.contradictions) {
    text += inked("contradiction", Ink::red, style) + " " +
            wrapped(contradiction, style.width, 14) + "\n";
  }
  for (const PublishedRun& run : report.like) {
    text += paragraph(
        "published",
        fmt::format("{}: {} on {} × {} (convention: {}; {})", run.model, percent(run.mfu.value),
                    run.devices, run.device, run.convention, run.source),
        style);
  }
  return text;
}

std::string bytes_text_of(const NeedReport& report) {
  const ByteNeed& bytes = *report.bytes;
  std::string text = fmt::format("\nweights {}", bytes_text({bytes.weights}));
  if (bytes.kv_cache_per_token > 0)
    text += fmt::format("   cache {} a token", bytes_text({bytes.kv_cache_per_token}));
  if (bytes.kv_cache > 0) text += fmt::format(", {} after the step", bytes_text({bytes.kv_cache}));
  if (bytes.step_read) {
    text += fmt::format("   the step reads {} and writes {}", bytes_text({*bytes.step_read}),
                        bytes_text({bytes.step_written.value_or(0)}));
  }
  return text + "\n";
}

std::string roofline_text(const Roofline& roof) {
  return fmt::format("{:.1f} FLOP a byte against {:.1f} of the device: bound by {}{}\n",
                     roof.flop_per_byte, roof.ridge_flop_per_byte,
                     roof.compute_bound ? "compute" : "memory",
                     roof.compute_from_batch
                         ? fmt::format("; by compute from batch {} on", *roof.compute_from_batch)
                         : "");
}

}  // namespace

std::string to_text(const NeedReport& report, const TextStyle& style) {
  std::string text =
      inked(report.name, Ink::bold, style) +
      fmt::format("  {}  {} parameters", report.architecture, grouped(report.parameters.total));
  if (report.parameters.active != report.parameters.total) {
    text += fmt::format(", {} active", grouped(report.parameters.active));
  }
  text += "\n" + step_line(report) + "\n\n";
  if (report.model_flop) {
    text += inked(count_text(*report.model_flop), Ink::bold, style);
    if (report.flop_per_token)
      text += fmt::format(
          "   {} a token",
          count_text(FlopCount::from_wide(static_cast<Uint128>(*report.flop_per_token))));
    if (report.hardware_flop && !(*report.hardware_flop == *report.model_flop)) {
      text += fmt::format("   {} with recomputation", count_text(*report.hardware_flop));
    }
    text += fmt::format("   (convention: {})\n\n", describe(report.convention).name);
  }
  text += parts_table(report, style);
  if (!report.tree.empty()) text += tree_table(report, style);
  if (!report.conventions.empty()) text += conventions_table(report, style);
  if (report.bytes) text += bytes_text_of(report);
  if (report.roofline) text += roofline_text(*report.roofline);
  if (report.utilization) text += utilization_text(report, style);
  for (const std::string& assumption : report.assumptions)
    text += paragraph("assumed", assumption, style);
  for (const std::string& note : report.notes) text += paragraph("note   ", note, style);
  return text;
}

std::string to_text(const ConversionReport& report, const TextStyle& style) {
  return fmt::format("{} by {} is {} by {} (× {:.4f})\n", percent(report.mfu_from.value),
                     describe(report.from).name,
                     inked(percent(report.mfu_to.value), Ink::bold, style),
                     describe(report.to).name, report.ratio);
}

std::string to_text(const PlanReport& report, const TextStyle& style) {
  std::string text =
      wrapped(fmt::format("{} at {} MFU of {} ({})", count_text(report.total_flop),
                          percent(report.mfu.value), rate_text(report.peak, Precision::bf16),
                          report.peak_source),
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
                                                           *plan.energy_kwh / 1000 + 0.5)))
                               : "-",
               plan.state_per_device ? bytes_text(*plan.state_per_device) : "-",
               plan.state_of_memory ? percent(plan.state_of_memory->value) +
                                          (plan.state_of_memory->value > 1 ? " does not fit" : "")
                                    : "-"});
  }
  text += table.text(style);
  for (const std::string& assumption : report.assumptions)
    text += paragraph("assumed", assumption, style);
  return text;
}

}  // namespace mfu
