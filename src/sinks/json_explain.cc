#include "base/json.h"
#include "mfu/sink.h"
#include "sinks/words.h"

namespace mfu {

namespace {

void write_rows(JsonWriter& json, std::string_view key, const std::vector<LedgerRow>& rows) {
  json.objects(key, rows, [&](const LedgerRow& row) {
    json.member("line", name_of(row.line));
    json.member("duration_ns", row.duration_ns);
    json.member("fraction", row.fraction);
  });
}

void write_ledger(JsonWriter& json, const Ledger& ledger) {
  json.begin_object();
  for (std::size_t i = 0; i < kLedgerLineCount; ++i) {
    LedgerLine line = static_cast<LedgerLine>(i);
    json.member(name_of(line), ledger[line]);
  }
  json.end_object();
}

void write_device(JsonWriter& json, const RankAttribution& rank) {
  json.key("device").begin_object();
  json.member("name", rank.device_name);
  json.member("id", rank.device_id);
  json.member("kind", rank.cpu ? "cpu" : "accelerator");
  json.key("catalog_name");
  rank.device ? json.value(rank.device->name) : json.null();
  json.member("peak_flop_per_s", rank.peak ? std::optional(rank.peak->per_s) : std::nullopt);
  json.member("bandwidth_bytes_per_s", rank.device && rank.device->bandwidth
                                           ? std::optional(rank.device->bandwidth->per_s)
                                           : std::nullopt);
  json.key("dtype");
  rank.precision ? json.value(name_of(*rank.precision)) : json.null();
  json.key("peak_source");
  rank.peak ? json.value(rank.peak_source) : json.null();
  json.end_object();
}

void write_window(JsonWriter& json, const Window& window) {
  json.key("window").begin_object();
  json.member("policy", name_of(window.policy));
  json.member("start_ns", window.start_ns);
  json.member("end_ns", window.end_ns);
  json.member("duration_ns", window.duration_ns());
  json.member("steps", window.steps);
  json.end_object();
}

// For a CPU: what the machine has, and how much of it was used.
void write_cpu(JsonWriter& json, const RankAttribution& rank) {
  json.key("cpu");
  if (!rank.cpu) {
    json.null();
    return;
  }
  const std::optional<ProfiledWindow>& counted = rank.counted;
  std::optional<double> used;
  if (counted && counted->wall.count() > 0) {
    used = static_cast<double>(counted->cpu.count()) / static_cast<double>(counted->wall.count());
  }
  auto known = [&](std::uint64_t ProfiledWindow::* member) {
    bool there = counted && (*counted).*member > 0;
    return there ? std::optional<std::uint64_t>((*counted).*member) : std::nullopt;
  };
  json.begin_object().member("cores_available", known(&ProfiledWindow::cores_available));
  json.member("cores_used", used).member("threads", known(&ProfiledWindow::threads));
  json.end_object();
}

void write_intervals(JsonWriter& json, const Intervals& sums) {
  json.key("intervals").begin_object();
  json.member("busy_ns", sums.busy_ns);
  json.member("idle_ns", sums.idle_ns);
  json.member("compute_ns", sums.compute_ns);
  json.member("communication_ns", sums.communication_ns);
  json.member("exposed_communication_ns", sums.exposed_communication_ns);
  json.member("copy_ns", sums.copy_ns);
  json.member("exposed_copy_ns", sums.exposed_copy_ns);
  json.end_object();
}

void write_coverage(JsonWriter& json, const AttributionCoverage& coverage) {
  json.key("coverage").begin_object();
  json.member("gpu_events", coverage.gpu_events);
  json.member("linked_fraction", coverage.linked_fraction);
  json.member("with_shapes_fraction", coverage.with_shapes_fraction);
  json.member("graph_launched_fraction", coverage.graph_launched_fraction);
  json.member("clipped_events", coverage.clipped_events);
  json.member("skipped_events", coverage.skipped_events);
  json.objects("uncounted", coverage.uncounted, [&](const UncountedLine& line) {
    json.member("operator", line.name);
    json.member("calls", line.calls);
    json.member("duration_ns", line.duration_ns);
    json.member("reason", line.reason);
  });
  json.end_object();
}

void write_operators(JsonWriter& json, const std::vector<OperatorLine>& operators) {
  json.objects("operators", operators, [&](const OperatorLine& line) {
    json.member("name", line.name);
    json.member("shapes", line.shapes);
    json.known("dtype", line.dtype);
    json.member("calls", line.calls);
    json.member("recomputed_calls", line.recomputed_calls);
    json.member("flop", line.flop);
    json.member("bytes", line.bytes);
    json.member("duration_ns", line.duration_ns);
    json.member("flop_per_s", line.rate ? std::optional(line.rate->per_s) : std::nullopt);
    json.member("peak_fraction",
                line.peak_fraction ? std::optional(line.peak_fraction->value) : std::nullopt);
    json.known("above_peak", std::string(above_peak(line)));
    json.known("code", line.code);
  });
}

void write_kernels(JsonWriter& json, const std::vector<KernelLine>& kernels) {
  json.objects("kernels", kernels, [&](const KernelLine& line) {
    json.member("name", line.name);
    json.member("kind", line.kind);
    json.member("calls", line.calls);
    json.member("duration_ns", line.duration_ns);
  });
}

void write_steps(JsonWriter& json, const std::vector<StepLedger>& steps) {
  json.objects("steps", steps, [&](const StepLedger& step) {
    json.member("number", step.number);
    json.member("start_ns", step.start_ns);
    json.member("end_ns", step.end_ns);
    json.member("model_flop", step.model_flop);
    json.key("ledger");
    write_ledger(json, step.ledger);
  });
}

void write_idle(JsonWriter& json, const RankAttribution& rank) {
  json.objects("idle", rank.idle, [&](const IdleLine& line) {
    json.member("line", name_of(line.cause));
    json.member("what", line.what);
    json.known("code", line.code);
    json.member("gaps", line.gaps);
    json.member("duration_ns", line.duration_ns);
  });
  json.objects("gaps", rank.gaps, [&](const Gap& gap) {
    json.member("start_ns", gap.start_ns);
    json.member("end_ns", gap.end_ns);
    json.member("next", gap.next);
    json.member("operator", gap.host);
    for (LedgerLine line : {LedgerLine::idle_data, LedgerLine::idle_launch,
                            LedgerLine::idle_synchronization, LedgerLine::idle_unknown}) {
      json.member(name_of(line), gap.ledger[line]);
    }
    json.known("reason", gap.reason);
  });
}

void write_rating(JsonWriter& json, const std::optional<Rating>& rating) {
  json.key("rating");
  rating ? json.value(name_of(*rating)) : json.null();
}

void write_rank(JsonWriter& json, const RankReport& report, Voice voice) {
  const RankAttribution& rank = report.found;
  json.begin_object();
  json.member("path", rank.path);
  json.member("rank", rank.rank);
  write_device(json, rank);
  write_window(json, rank.window);
  write_intervals(json, rank.intervals);
  write_cpu(json, rank);
  write_rows(json, "ledger", report.rows);
  json.member("model_flop", rank.model_flop);
  json.member("hardware_flop", rank.hardware_flop);
  json.member("mfu", rank.mfu);
  json.member("hfu", rank.hfu);
  write_rating(json, report.rating);
  json.member("communication_wait_ns", rank.communication_wait_ns);
  write_coverage(json, rank.coverage);
  write_findings(json, "findings", rank.findings, voice);
  write_operators(json, rank.operators);
  write_kernels(json, rank.kernels);
  write_steps(json, rank.steps);
  write_idle(json, rank);
  write_notes(json, rank.notes, voice);
  json.end_object();
}

}  // namespace

std::string to_json(const PartReport& report) {
  JsonWriter json;
  json.begin_object().member("schema", "mfu.part/1");
  json.member("path", report.path);
  json.member("traces", report.traces);
  json.member("bytes", report.bytes);
  json.member("json_bytes", report.json_bytes);
  json.key("notes").begin_array();
  for (const std::string& note : report.notes) json.value(note);
  json.end_array();
  return json.end_object().text();
}

std::string to_json(const ExplainReport& report, Voice voice) {
  JsonWriter json;
  json.begin_object().member("schema", "mfu.explain/1");
  json.key("ranks").begin_array();
  for (const RankReport& rank : report.ranks) write_rank(json, rank, voice);
  json.end_array();
  json.key("summary").begin_object();
  write_rows(json, "ledger", report.rows);
  json.member("duration_ns", report.duration_ns);
  json.member("mfu", report.mfu);
  write_rating(json, report.rating);
  json.member("slowest_rank",
              report.slowest ? report.ranks[*report.slowest].found.rank : std::nullopt);
  write_findings(json, "findings", report.findings, voice);
  json.objects("published", report.like, [&](const PublishedRun& run) {
    json.member("model", run.model);
    json.member("device", run.device);
    json.member("devices", run.devices);
    json.member("mfu", run.mfu.value);
    json.member("source", run.source);
  });
  json.end_object();
  json.member("partial", report.partial);
  write_notes(json, report.notes, voice);
  return json.end_object().text();
}

}  // namespace mfu
