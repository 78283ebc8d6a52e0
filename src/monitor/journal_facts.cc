#include <fmt/format.h>

#include "base/json.h"
#include "monitor/journal.h"

namespace mfu {

namespace {

const Json* at(const Json& object, std::string_view name) {
  const Json* found = object.find(name);
  return found == nullptr || found->is(Json::Kind::null) ? nullptr : found;
}

std::string text_at(const Json& object, std::string_view name) {
  const Json* found = at(object, name);
  const std::string* text = found == nullptr ? nullptr : found->string();
  return text == nullptr ? "" : *text;
}

std::optional<double> number_at(const Json& object, std::string_view name) {
  const Json* found = at(object, name);
  return found == nullptr ? std::nullopt : found->number();
}

std::uint64_t count_at(const Json& object, std::string_view name, std::uint64_t otherwise) {
  const Json* found = at(object, name);
  return found == nullptr ? otherwise : found->count().value_or(otherwise);
}

bool flag_at(const Json& object, std::string_view name, bool otherwise) {
  const Json* found = at(object, name);
  return found == nullptr ? otherwise : found->boolean().value_or(otherwise);
}

void write_mode(JsonWriter& json, const Mode& mode) {
  json.member("mode", name_of(mode));
  if (const auto* smart = std::get_if<SmartMode>(&mode)) {
    json.member("initial_profiling", smart->initial_profiling);
    json.member("calibration_enabled", smart->calibration_enabled);
    json.member("recalibration_frequency", smart->recalibration_frequency);
  }
  if (const auto* hybrid = std::get_if<HybridMode>(&mode)) {
    json.member("hardware_counters_enabled", hybrid->hardware_counters_enabled);
    json.member("fallback_to_profiler", hybrid->fallback_to_profiler);
  }
}

Result<Mode> read_mode(const Json& object) {
  Mode mode = MFU_TRY(parse_mode(text_at(object, "mode")));
  if (auto* smart = std::get_if<SmartMode>(&mode)) {
    smart->initial_profiling = flag_at(object, "initial_profiling", true);
    smart->calibration_enabled = flag_at(object, "calibration_enabled", true);
    smart->recalibration_frequency = count_at(object, "recalibration_frequency", 1000);
  }
  if (auto* hybrid = std::get_if<HybridMode>(&mode)) {
    hybrid->hardware_counters_enabled = flag_at(object, "hardware_counters_enabled", true);
    hybrid->fallback_to_profiler = flag_at(object, "fallback_to_profiler", true);
  }
  return mode;
}

constexpr std::string_view kRecompute[] = {"none", "selective", "full"};

UtilizationBasis read_basis(const Json& object) {
  UtilizationBasis basis;
  if (auto found = parse_convention(text_at(object, "convention")); found.has_value()) {
    basis.convention = *found;
  }
  basis.precision = parse_precision(text_at(object, "dtype"));
  if (auto peak = number_at(object, "peak_flop_per_s")) basis.peak = FlopRate{*peak};
  basis.peak_source = text_at(object, "peak_source");
  if (auto rate = number_at(object, "bandwidth_bytes_per_s")) basis.bandwidth = ByteRate{*rate};
  basis.devices = count_at(object, "devices", 1);
  if (at(object, "rank") != nullptr) {
    basis.rank = static_cast<std::uint32_t>(count_at(object, "rank", 0));
  }
  basis.zero_where_unmeasured = flag_at(object, "zero_where_unmeasured", false);
  return basis;
}

}  // namespace

std::string to_json(const JournalFacts& facts) {
  const UtilizationBasis& basis = facts.pipeline.basis;
  JsonWriter json;
  json.begin_object();
  json.member("schema", "mfu.steps/1");
  json.member("host", facts.host);
  json.member("pid", static_cast<std::uint64_t>(facts.pid));
  json.member("queue", facts.queue);
  json.member("locked", facts.locked);
  json.member("ended", facts.ended);
  json.member("dropped", facts.dropped);
  json.member("realtime_offset_ns", std::to_string(facts.pipeline.realtime_offset.count()));
  write_mode(json, facts.pipeline.meter.mode);
  json.member("recompute", kRecompute[static_cast<std::size_t>(facts.pipeline.meter.recompute)]);
  json.member("phase", name_of(facts.pipeline.meter.phase));
  json.member("flop_per_token", facts.pipeline.flop_per_token);
  json.member("convention", describe(basis.convention).name);
  if (basis.precision) json.member("dtype", name_of(*basis.precision));
  if (basis.peak) json.member("peak_flop_per_s", basis.peak->per_s);
  json.member("peak_source", basis.peak_source);
  if (basis.bandwidth) json.member("bandwidth_bytes_per_s", basis.bandwidth->per_s);
  json.member("devices", basis.devices);
  if (basis.rank) json.member("rank", static_cast<std::uint64_t>(*basis.rank));
  json.member("zero_where_unmeasured", basis.zero_where_unmeasured);
  json.member("model", facts.model_json);
  json.member("model_kept", facts.model_kept);
  json.end_object();
  return json.text() + "\n";
}

Result<JournalFacts> parse_facts(std::string_view text, std::string_view name) {
  Json json = MFU_TRY(parse_json(text, name));
  if (text_at(json, "schema") != "mfu.steps/1") {
    return fail(ErrorCode::malformed,
                fmt::format("{} is not of schema mfu.steps/1, the one this version reads", name));
  }
  JournalFacts facts;
  facts.host = text_at(json, "host");
  facts.pid = static_cast<std::uint32_t>(count_at(json, "pid", 0));
  facts.queue = text_at(json, "queue");
  facts.locked = flag_at(json, "locked", false);
  facts.ended = flag_at(json, "ended", false);
  facts.dropped = count_at(json, "dropped", 0);
  facts.model_json = text_at(json, "model");
  facts.model_kept = text_at(json, "model_kept");
  facts.pipeline.realtime_offset = std::chrono::nanoseconds(
      std::strtoll(text_at(json, "realtime_offset_ns").c_str(), nullptr, 10));
  facts.pipeline.meter.mode = MFU_TRY(read_mode(json));
  if (auto found = parse_recompute(text_at(json, "recompute")); found.has_value()) {
    facts.pipeline.meter.recompute = *found;
  }
  if (auto found = parse_phase(text_at(json, "phase")); found.has_value()) {
    facts.pipeline.meter.phase = *found;
  }
  facts.pipeline.flop_per_token = number_at(json, "flop_per_token");
  facts.pipeline.basis = read_basis(json);
  return facts;
}

}  // namespace mfu
