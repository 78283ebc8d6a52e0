#include <fmt/format.h>

#include "base/json.h"
#include "base/secrets.h"
#include "mfu/sink.h"
#include "sinks/json_phases.h"
#include "sinks/words.h"

namespace mfu {

namespace {

void write_time(JsonWriter& json, const char* name,
                const std::optional<std::chrono::nanoseconds>& time) {
  json.key(name);
  if (time) {
    json.value(static_cast<std::uint64_t>(std::max<std::int64_t>(time->count(), 0)));
  } else {
    json.null();
  }
}

void write_share(JsonWriter& json, std::string_view name, const std::optional<Fraction>& share) {
  json.member(name, share ? std::optional(share->value) : std::nullopt);
}

void write_rate(JsonWriter& json, std::string_view name, const std::optional<FlopRate>& rate) {
  json.member(name, rate ? std::optional(rate->per_s) : std::nullopt);
}

void write_text(JsonWriter& json, std::string_view name, const std::string& text) {
  json.key(name);
  text.empty() ? json.null() : json.value(text);
}

void write_number(JsonWriter& json, const char* name, const std::optional<std::uint64_t>& number) {
  json.key(name);
  number ? json.value(*number) : json.null();
}

void write_times(JsonWriter& json, const std::optional<StepTimes>& times) {
  json.key("step_ns");
  json.begin_object();
  auto of = [&](std::chrono::nanoseconds StepTimes::* member) {
    return times ? std::optional((*times).*member) : std::nullopt;
  };
  write_time(json, "median", of(&StepTimes::median));
  write_time(json, "p10", of(&StepTimes::p10));
  write_time(json, "p90", of(&StepTimes::p90));
  write_time(json, "p99", of(&StepTimes::p99));
  json.end_object();
}

void write_flop(JsonWriter& json, const std::optional<CountedFlop>& flop) {
  auto of = [&](FlopCount CountedFlop::* member) {
    return flop ? std::optional((*flop).*member) : std::nullopt;
  };
  json.member("model_flop", of(&CountedFlop::model_flop));
  json.member("hardware_flop", of(&CountedFlop::hardware_flop));
  json.member("recomputed_flop", of(&CountedFlop::recomputed_flop));
}

void write_phases(JsonWriter& json, const std::optional<Fraction> (&phase)[kStepPhases]) {
  constexpr const char* kNames[kStepPhases] = {"data_wait_fraction", "optimizer_fraction",
                                               "communication_fraction", "checkpoint_fraction",
                                               "validation_fraction"};
  for (std::size_t i = 0; i < kStepPhases; ++i) write_share(json, kNames[i], phase[i]);
}

void write_counts(JsonWriter& json, const RunReport& report) {
  write_flop(json, report.flop);
  json.key("flop_by_operator").begin_object();
  for (const auto& [name, total] : report.by_operator) {
    json.member(name, total.flop.hardware_flop);
  }
  json.end_object().key("flop_by_dtype").begin_object();
  for (const RunType& each : report.by_type) json.member(each.type, each.flop.hardware_flop);
  json.end_object().key("operators").begin_array();
  for (const auto& [name, total] : report.by_operator) {
    json.begin_object().member("operator", name).member("calls", total.calls);
    write_flop(json, total.flop);
    json.member("bytes", total.bytes).end_object();
  }
  json.end_array().key("dtypes").begin_array();
  for (const RunType& each : report.by_type) {
    json.begin_object().member("dtype", each.type);
    write_flop(json, each.flop);
    write_rate(json, "peak_flop_per_s", each.peak.rate);
    json.member("peak_dtype", each.peak.against ? name_of(*each.peak.against) : each.type);
    json.member("peak_reason", name_of(each.peak.reason)).end_object();
  }
  json.end_array();
}

void write_utilization(JsonWriter& json, const RunReport& report) {
  write_share(json, "mfu", report.mfu);
  write_share(json, "hfu", report.hfu);
  write_share(json, "mfu_wall", report.mfu_wall);
  write_rate(json, "flop_per_s", report.reached);
  write_rate(json, "peak_flop_per_s", report.peak);
  write_text(json, "peak_source", report.peak_source);
  write_rate(json, "ceiling_flop_per_s", report.ceiling);
  write_text(json, "ceiling_source", report.ceiling_source);
  write_text(json, "device", report.device);
  json.member("devices", report.devices);
  write_text(json, "dtype", report.dtype);
  json.member("source", "counted").member("convention", "counted");
  write_phases(json, report.phase);
  json.member("timing", report.device_timed ? "device" : "host");
}

void write_devices(JsonWriter& json, const RunReport& report) {
  json.key("by_device").begin_array();
  for (const RunDeviceReport& each : report.by_device) {
    json.begin_object();
    write_text(json, "device", each.device);
    write_number(json, "index", each.index);
    write_text(json, "identity", each.identity);
    write_rate(json, "peak_flop_per_s", each.peak);
    write_flop(json, each.flop);
    write_share(json, "mfu", each.mfu);
    json.end_object();
  }
  json.end_array();
}

void write_ranks(JsonWriter& json, const RunReport& report) {
  json.key("by_rank").begin_array();
  for (const RunRankReport& each : report.by_rank) {
    json.begin_object();
    json.member("rank", each.rank ? std::optional<std::uint64_t>(*each.rank) : std::nullopt);
    json.member("host", each.host).member("pid", std::uint64_t{each.pid});
    write_text(json, "device", each.device);
    json.member("steps", each.steps).member("steps_dropped", each.steps_dropped);
    json.member("restarts", each.restarts);
    write_times(json, each.step);
    write_time(json, "own_ns", each.own);
    write_flop(json, each.flop);
    write_number(json, "tokens", each.tokens);
    write_number(json, "samples", each.samples);
    write_phases(json, each.phase);
    json.end_object();
  }
  json.end_array();
  json.member("slowest_rank", report.slowest_rank
                                  ? std::optional<std::uint64_t>(*report.slowest_rank)
                                  : std::nullopt);
}

void write_coverage(JsonWriter& json, const RunReport& report) {
  json.key("coverage").begin_object().member("counted_calls", report.counted_calls);
  json.key("uncounted").begin_array();
  for (const OperatorTotal& each : report.uncounted) {
    json.begin_object().member("operator", each.name).member("calls", each.calls);
    json.member("reason", each.reason).end_object();
  }
  json.end_array().key("complete");
  if (report.complete) {
    json.value(*report.complete);
  } else {
    json.null();
  }
  json.key("libraries").begin_array();
  for (const RunLibrary& each : report.libraries) {
    json.begin_object().member("name", each.name);
    write_text(json, "version", each.version);
    json.member("counted", each.counted);
    write_text(json, "why", each.why);
    json.end_object();
  }
  json.end_array().end_object();
}

void write_passes(JsonWriter& json, const RunReport& report) {
  json.key("phases").begin_array();
  for (const RunPhaseReport& each : report.phases) write_phase(json, each);
  json.end_array().key("tokens_by_kind").begin_object();
  auto kind = [&](const char* name, std::uint64_t RunTokens::* member) {
    const auto& kinds = report.tokens_by_kind;
    write_number(json, name, kinds ? std::optional((*kinds).*member) : std::nullopt);
  };
  kind("training", &RunTokens::training);
  kind("evaluation", &RunTokens::evaluation);
  kind("prompt", &RunTokens::prompt);
  kind("generated", &RunTokens::generated);
  write_number(json, "padded",
               report.tokens_by_kind ? report.tokens_by_kind->padded : std::nullopt);
  json.end_object();
}

void write_ended(JsonWriter& json, const RunReport& report) {
  constexpr const char* kHow[] = {"exit", "signal", "lost", "stopped"};
  json.key("ended");
  if (!report.ended) {
    json.null();
    return;
  }
  auto number = [&](const char* name, const std::optional<int>& value) {
    write_number(json, name,
                 value ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt);
  };
  json.begin_object().member("how", kHow[static_cast<std::size_t>(report.ended->how)]);
  number("status", report.ended->status);
  number("signal", report.ended->signal);
  write_number(
      json, "rank",
      report.ended->rank ? std::optional<std::uint64_t>(*report.ended->rank) : std::nullopt);
  json.end_object();
}

void write_host(JsonWriter& json, const RunReport& report) {
  constexpr const char* kNames[kHostParts] = {"compute_fraction",     "loader_fraction",
                                              "device_wait_fraction", "io_fraction",
                                              "sleep_fraction",       "preempted_fraction"};
  json.key("host").begin_object();
  for (std::size_t i = 0; i < kHostParts; ++i) write_share(json, kNames[i], report.host[i]);
  write_share(json, "idle_fraction", report.host_idle);
  json.end_object();
}

void write_explanation(JsonWriter& json, const RunReport& report, Voice voice) {
  json.key("explain");
  if (!report.explain && report.profiled_steps.empty()) {
    json.null();
    return;
  }
  const RunExplanation none, &explain = report.explain ? *report.explain : none;
  json.begin_object().key("profiled_steps").begin_array();
  for (std::uint64_t step : report.profiled_steps) json.value(step);
  json.end_array().strings("traces", explain.traces);
  write_text(json, "report", explain.report);
  json.member("mfu", explain.mfu);
  json.objects("ledger", explain.ledger, [&](const RunExplanation::Line& each) {
    json.member("line", name_of(each.line)).member("duration_ns", each.duration_ns);
    json.member("fraction", each.fraction);
  });
  write_findings(json, "findings", explain.findings, voice);
  json.end_object();
}

}  // namespace

std::string to_json(const RunReport& report, Voice voice) {
  JsonWriter json;
  json.begin_object()
      .member("schema", "mfu.run/1")
      .strings("command", without_secrets(report.run.command));
  json.key("exit_status");
  if (report.run.exit_status) {
    json.value(static_cast<std::uint64_t>(*report.run.exit_status));
  } else {
    json.null();
  }
  write_ended(json, report);
  json.member("stopped_after_steps", report.stopped_after_steps);
  json.member("ranks", report.ranks);
  write_number(json, "ranks_expected", report.ranks_expected);
  json.member("restarts", report.restarts).member("attempt", std::uint64_t{report.attempt});
  json.member("launchers", report.launchers).member("hosts", report.hosts);
  json.member("steps", report.steps);
  json.member("warmup_steps", report.warmup);
  write_time(json, "wall_ns", report.wall);
  write_times(json, report.step);
  write_counts(json, report);
  json.member("tokens", report.tokens).member("tokens_per_s", report.tokens_per_s);
  json.member("samples", report.samples);
  write_passes(json, report);
  write_windows(json, report);
  write_utilization(json, report);
  write_host(json, report);
  write_coverage(json, report);
  write_devices(json, report);
  write_ranks(json, report);
  write_findings(json, "findings", report.findings, voice);
  write_explanation(json, report, voice);
  write_findings(json, "suggestions", report.findings, voice);
  json.member("partial", report.partial);
  json.strings("contradictions", all_words(report.contradictions, voice));
  write_notes(json, report.notes, voice);
  return json.end_object().text();
}

}  // namespace mfu
