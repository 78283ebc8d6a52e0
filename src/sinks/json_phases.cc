#include "sinks/json_phases.h"

namespace mfu {

namespace {

void put_time(JsonWriter& json, const char* name, std::chrono::nanoseconds time) {
  json.member(name, static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)));
}

void put_share(JsonWriter& json, const char* name, const std::optional<Fraction>& share) {
  json.member(name, share ? std::optional(share->value) : std::nullopt);
}

// Writes what every phase has, in a run and in a window.
void put_common(JsonWriter& json, const RunPhaseReport& phase) {
  json.member("phase", phase_name(phase.phase));
  json.key("model");
  phase.model.empty() ? json.null() : json.value(phase.model);
  json.member("passes", phase.passes).member("tokens", phase.tokens);
  json.member("model_flop", phase.model_flop).member("hardware_flop", phase.hardware_flop);
  put_time(json, "time_ns", phase.time);
  json.member("timing", "host");
  put_share(json, "mfu", phase.mfu);
  put_share(json, "mbu", phase.mbu);
  json.member("tokens_per_s", phase.tokens_per_s);
}

}  // namespace

std::string_view phase_name(RunPhase phase) {
  constexpr std::string_view kNames[kRunPhases] = {"train",  "validation", "prefill",
                                                   "decode", "forward",    "other"};
  return kNames[static_cast<std::size_t>(phase)];
}

void write_phase(JsonWriter& json, const RunPhaseReport& phase) {
  json.begin_object();
  put_common(json, phase);
  bool generates = phase.phase == RunPhase::prefill || phase.phase == RunPhase::decode;
  bool known = phase.weight_read_bytes != 0;
  auto bytes = [&](const char* name, std::uint64_t count, bool told) {
    json.member(name, told ? std::optional(count) : std::nullopt);
  };
  bytes("weight_read_bytes", phase.weight_read_bytes, known);
  bytes("cache_read_bytes", phase.cache_read_bytes, known && generates);
  bytes("cache_written_bytes", phase.cache_written_bytes, known && generates);
  json.member("mixed_passes", phase.mixed_passes);
  json.key("step_ns").begin_object();
  json.member("median", phase.median_ns).member("p99", phase.p99_ns).end_object();
  json.key("batch").begin_object();
  json.member("median", phase.median_batch).member("largest", phase.largest_batch).end_object();
  json.key("kept").begin_object();
  put_time(json, "time_ns", phase.kept_time);
  json.member("model_flop", phase.kept_model_flop);
  bytes("moved_bytes", phase.kept_moved_bytes, phase.kept_moved_bytes != 0);
  json.end_object().end_object();
}

void write_windows(JsonWriter& json, const RunReport& report) {
  constexpr const char* kParts[] = {"generation", "training", "validation", "forward", "other"};
  json.key("shares").begin_array();
  for (const RunShare& each : report.shares) {
    json.begin_object().member("part", kParts[static_cast<std::size_t>(each.part)]);
    put_time(json, "time_ns", each.time);
    json.member("time_fraction", each.of_time.value);
    put_share(json, "mfu", each.mfu);
    put_share(json, "mbu", each.mbu);
    json.end_object();
  }
  json.end_array().key("windows").begin_array();
  for (const RunWindow& each : report.windows) {
    json.begin_object();
    put_time(json, "start_ns", each.start);
    put_time(json, "duration_ns", each.duration);
    put_time(json, "idle_ns", each.idle);
    json.key("phases").begin_array();
    for (const RunPhaseReport& phase : each.phases) {
      json.begin_object();
      put_common(json, phase);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
  json.member("idle_ns", report.idle
                             ? std::optional(static_cast<std::uint64_t>(report.idle->count()))
                             : std::nullopt);
  json.member("bandwidth_bytes_per_s",
              report.bandwidth ? std::optional(report.bandwidth->per_s) : std::nullopt);
}

}  // namespace mfu
