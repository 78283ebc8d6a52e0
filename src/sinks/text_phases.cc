#include "sinks/text_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "mfu/sink.h"
#include "sinks/json_phases.h"

namespace mfu {

namespace {

std::string share_text(double share) {
  if (share > 0 && share < 0.001) return fmt::format("{:.2g}%", share * 100);
  return fmt::format("{:.1f}%", share * 100);
}

std::string use_text(const std::optional<Fraction>& mfu, const std::optional<Fraction>& mbu) {
  std::string text;
  if (mfu) text += " at MFU " + share_text(mfu->value);
  if (mbu) text += (mfu ? " and MBU " : " at MBU ") + share_text(mbu->value);
  return text;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// What a forward pass of that model is for in reinforcement learning, as far as its class tells.
std::string forward_word(const RunReport& report, const std::string& model) {
  if (contains(model, "Reward") || contains(model, "SequenceClassification")) return "reward";
  bool trained = std::any_of(report.phases.begin(), report.phases.end(), [&](const auto& each) {
    return each.phase == RunPhase::train && each.model == model;
  });
  if (trained) return "log-probabilities";
  return model.empty() ? "forward" : "forward of " + model;
}

// "generation 71% of the time at MFU 1.9% and MBU 34%; training 22% at MFU 38%; reward 7%"
std::string shares_text(const RunReport& report) {
  std::vector<std::string> parts;
  std::chrono::nanoseconds all{};
  for (const RunShare& each : report.shares) all += each.time;
  for (const RunShare& each : report.shares) {
    constexpr const char* kNames[] = {"generation", "training", "validation", "forward", "other"};
    const char* of = !parts.empty()        ? ""
                     : report.asynchronous ? " of the host's time"
                                           : " of the time";
    if (each.part != RunShare::Part::forward) {
      if (each.of_time.value < 0.0005) continue;
      parts.push_back(kNames[static_cast<std::size_t>(each.part)] + std::string(" ") +
                      share_text(each.of_time.value) + of + use_text(each.mfu, each.mbu));
      continue;
    }
    for (const RunPhaseReport& phase : report.phases) {
      if (phase.phase != RunPhase::forward || phase.kept_time.count() <= 0) continue;
      double share =
          static_cast<double>(phase.kept_time.count()) / static_cast<double>(all.count());
      parts.push_back(forward_word(report, phase.model) + " " + share_text(share) + of +
                      use_text(phase.mfu, phase.mbu));
      of = "";
    }
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string token_rate_text(double per_s) {
  return per_s >= 100 ? grouped(static_cast<std::uint64_t>(std::llround(per_s)))
                      : fmt::format("{:.1f}", per_s);
}

std::string phase_text(const RunPhaseReport& phase) {
  std::string text;
  if (phase.tokens) text += grouped(*phase.tokens) + " tokens in ";
  text += fmt::format("{} pass{}", grouped(phase.passes), phase.passes == 1 ? "" : "es");
  if (!phase.model.empty()) text += " of " + phase.model;
  if (phase.tokens_per_s) text += ", " + token_rate_text(*phase.tokens_per_s) + " tokens/s";
  if (phase.median_ns && phase.p99_ns) {
    text += fmt::format(", {} each (p99 {})", duration_text(static_cast<double>(*phase.median_ns)),
                        duration_text(static_cast<double>(*phase.p99_ns)));
  }
  if (phase.median_batch) {
    text += fmt::format(", batch {}", *phase.median_batch);
    if (phase.largest_batch && *phase.largest_batch != *phase.median_batch) {
      text += fmt::format(" (largest {})", *phase.largest_batch);
    }
  }
  if (phase.mfu) text += ", MFU " + share_text(phase.mfu->value);
  if (phase.mbu) text += ", MBU " + share_text(phase.mbu->value);
  if (phase.weight_read_bytes != 0 && phase.passes != 0) {
    auto each = [&](std::uint64_t bytes) { return bytes_text(Bytes{bytes / phase.passes}); };
    text += fmt::format("; a pass reads {} of weights", each(phase.weight_read_bytes));
    if (phase.cache_read_bytes != 0)
      text += fmt::format(" and {} of cache", each(phase.cache_read_bytes));
    if (phase.cache_written_bytes != 0)
      text += fmt::format(", writes {}", each(phase.cache_written_bytes));
  }
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> phase_lines(const RunReport& report) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (report.shares.empty()) return lines;
  lines.emplace_back("phases", shares_text(report));
  for (const RunPhaseReport& each : report.phases) {
    bool generates = each.phase == RunPhase::prefill || each.phase == RunPhase::decode;
    bool tells = generates || (report.steps == 0 && each.passes != 0);
    if (tells) lines.emplace_back(std::string(phase_name(each.phase)), phase_text(each));
  }
  if (report.steps == 0 && report.idle && report.idle->count() > 0) {
    lines.emplace_back(
        "idle", duration_text(static_cast<double>(report.idle->count())) + " in which no pass ran");
  }
  return lines;
}

std::string live_phases(const RunReport& report) {
  const std::vector<RunPhaseReport>& phases =
      report.windows.empty() ? report.phases : report.windows.back().phases;
  std::string text;
  for (const RunPhaseReport& each : phases) {
    if (each.passes == 0) continue;
    if (!text.empty()) text += "   ";
    text += phase_name(each.phase);
    if (each.tokens_per_s) text += " " + token_rate_text(*each.tokens_per_s) + " tokens/s";
    if (each.mfu) text += "  MFU " + share_text(each.mfu->value);
    if (each.mbu) text += "  MBU " + share_text(each.mbu->value);
  }
  return text;
}

}  // namespace mfu
