#include "base/json.h"
#include "mfu/sink.h"
#include "sinks/words.h"

namespace mfu {

namespace {

void write_model(JsonWriter& json, const NeedReport& report) {
  json.key("model").begin_object();
  json.member("name", report.name);
  json.member("type", report.type);
  json.member("architecture", report.architecture);
  json.member("source", report.source);
  json.member("parameters_total", report.parameters.total);
  json.member("parameters_active", report.parameters.active);
  json.member("parameters_embedding", report.parameters.embedding);
  json.key("parameters_by_part").begin_object();
  for (std::size_t i = 0; i < kPartCount; ++i) {
    Part part = static_cast<Part>(i);
    if (report.parameters.by_part[part] > 0)
      json.member(name_of(part), report.parameters.by_part[part]);
  }
  json.end_object().end_object();
}

void write_input(JsonWriter& json, const NeedReport& report) {
  json.key("input").begin_object();
  json.member("phase", name_of(report.work.phase));
  json.member("batch", report.work.batch);
  json.member("sequence", report.work.sequence);
  json.member("context", report.work.context);
  json.key("lengths");
  if (report.work.lengths.empty()) {
    json.null();
  } else {
    json.begin_array();
    for (std::uint64_t length : report.work.lengths) json.value(length);
    json.end_array();
  }
  json.member("encoder_sequence", report.work.encoder_sequence);
  json.member("images", report.work.images);
  if (!report.tensors.empty()) {
    json.key("tensors").begin_object();
    for (const auto& [name, sizes] : report.tensors) {
      json.key(name).begin_array();
      for (std::uint64_t size : sizes) json.value(size);
      json.end_array();
    }
    json.end_object();
  }
  json.end_object();
}

void write_conventions(JsonWriter& json, const NeedReport& report) {
  json.key("conventions").begin_object();
  for (const ConventionReport& each : report.conventions) {
    json.member(describe(each.convention).name, each.count.model_flop);
  }
  json.end_object();
}

void write_bytes(JsonWriter& json, const std::optional<ByteNeed>& bytes) {
  json.key("bytes");
  if (!bytes) {
    json.null();
    return;
  }
  json.begin_object();
  json.member("weights", bytes->weights);
  json.member("kv_cache_per_token", bytes->kv_cache_per_token);
  json.member("kv_cache", bytes->kv_cache);
  json.member("state", bytes->state);
  json.member("step_read", bytes->step_read);
  json.member("step_written", bytes->step_written);
  json.end_object();
}

std::optional<double> share(const std::optional<Fraction>& fraction) {
  return fraction ? std::optional(fraction->value) : std::nullopt;
}

void write_peak(JsonWriter& json, const ChosenPeak& peak) {
  json.member("peak_source", peak.source);
  json.key("peak_dtype");
  peak.against ? json.value(name_of(*peak.against)) : json.null();
  json.member("peak_reason", name_of(peak.reason));
}

void write_utilization(JsonWriter& json, const NeedReport& report, Voice voice) {
  json.key("utilization");
  if (!report.utilization) {
    json.null();
    return;
  }
  const Utilization& used = *report.utilization;
  json.begin_object();
  json.member("mfu", used.mfu.value);
  json.member("hfu", share(used.hfu));
  json.member("mbu", share(used.mbu));
  json.member("flop_per_s", used.reached.per_s);
  json.member("peak_flop_per_s", used.peak.per_s);
  write_peak(json, *report.peak);
  json.member("devices", used.devices);
  json.key("rating");
  used.contradictions.empty() ? json.value(name_of(used.rating)) : json.null();
  json.strings("contradictions", all_words(used.contradictions, voice));
  json.end_object();
}

void write_roofline(JsonWriter& json, const std::optional<Roofline>& roof) {
  if (!roof) return;
  json.key("roofline").begin_object();
  json.member("flop_per_byte", roof->flop_per_byte);
  json.member("ridge_flop_per_byte", roof->ridge_flop_per_byte);
  json.member("bound_by", roof->compute_bound ? "compute" : "memory");
  json.member("compute_from_batch", roof->compute_from_batch);
  json.end_object();
}

void write_serving(JsonWriter& json, const std::optional<ServingNeed>& need) {
  if (!need) return;
  json.key("serving").begin_object();
  json.member("drafted", need->drafted).member("accepted", need->accepted);
  json.member("chunk", need->chunk).member("passes", need->passes);
  json.member("model_flop", need->flop).member("moved_bytes", need->moved_bytes);
  json.member("tokens", need->tokens);
  json.member("roof_tokens_per_s", need->roof_tokens_per_s);
  json.key("bound_by");
  need->roof_tokens_per_s ? json.value(need->compute_bound ? "compute" : "memory") : json.null();
  json.end_object();
}

void write_rl(JsonWriter& json, const std::optional<RlReport>& rl) {
  if (!rl) return;
  json.key("rl").begin_object();
  json.member("sequences", rl->sequences);
  json.member("prompt", rl->prompt);
  json.member("response", rl->response);
  json.key("passes").begin_array();
  for (const RlReport::Pass& pass : rl->passes) {
    json.begin_object();
    json.member("role", name_of(pass.role));
    json.member("times", pass.times);
    json.member("model_flop", pass.flop);
    json.end_object();
  }
  json.end_array();
  json.member("total_flop", rl->total);
  json.end_object();
}

void write_tree(JsonWriter& json, const std::vector<TreeLine>& tree) {
  if (tree.empty()) return;
  json.objects("tree", tree, [&](const TreeLine& line) {
    json.member("depth", static_cast<std::uint64_t>(line.depth));
    json.member("name", line.name);
    json.member("layers", line.layers);
    json.member("parameters", line.parameters);
    json.member("forward_flop", line.forward_flop);
  });
}

}  // namespace

std::string to_json(const NeedReport& report, Voice voice) {
  JsonWriter json;
  json.begin_object().member("schema", "mfu.flops/1");
  write_model(json, report);
  write_input(json, report);
  json.member("convention", describe(report.convention).name);
  json.member("model_flop", report.model_flop);
  json.member("hardware_flop", report.hardware_flop);
  json.member("flop_per_token", report.flop_per_token);
  json.member("tokens", report.tokens);
  json.key("flop_by_part").begin_object();
  for (std::size_t i = 0; i < kPartCount; ++i) {
    Part part = static_cast<Part>(i);
    if (report.flop_by_part[part] > FlopCount(0))
      json.member(name_of(part), report.flop_by_part[part]);
  }
  json.end_object();
  write_conventions(json, report);
  write_bytes(json, report.bytes);
  write_utilization(json, report, voice);
  write_roofline(json, report.roofline);
  write_serving(json, report.serving);
  write_rl(json, report.rl);
  write_tree(json, report.tree);
  write_notes(json, report.assumptions, voice, "assumption");
  write_notes(json, with_peak(report.notes, report.peak.value_or(ChosenPeak())), voice);
  return json.end_object().text();
}

std::string to_json(const ConversionReport& report) {
  JsonWriter json;
  json.begin_object().member("schema", "mfu.convert/1");
  json.member("from", describe(report.from).name);
  json.member("to", describe(report.to).name);
  json.member("mfu_from", report.mfu_from.value);
  json.member("mfu_to", report.mfu_to.value);
  json.member("ratio", report.ratio);
  return json.end_object().text();
}

std::string to_json(const PlanReport& report) {
  JsonWriter json;
  json.begin_object().member("schema", "mfu.plan/1");
  json.member("total_flop", report.total_flop);
  json.member("device", report.device);
  json.member("peak_flop_per_s", report.peak.rate->per_s);
  write_peak(json, report.peak);
  json.member("mfu", report.mfu.value);
  json.objects("plans", report.plans, [&](const Plan& plan) {
    json.member("devices", plan.devices);
    json.member("device_hours", plan.device_hours);
    json.member("days", plan.days);
    json.member("cost", plan.cost);
    json.member("energy_kwh", plan.energy_kwh);
    json.member("state_bytes_per_device",
                plan.state_per_device ? std::optional(plan.state_per_device->count) : std::nullopt);
    json.member("state_fraction_of_memory", share(plan.state_of_memory));
  });
  std::vector<std::string> assumptions = report.assumptions;
  for (const Note& note : with_peak({}, report.peak)) assumptions.push_back(words_of(note));
  json.strings("assumptions", assumptions);
  return json.end_object().text();
}

}  // namespace mfu
