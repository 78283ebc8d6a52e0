#include <fmt/format.h>

#include "base/json.h"
#include "base/secrets.h"
#include "mfu/sink.h"
#include "mfu/steps.h"
#include "sinks/words.h"

namespace mfu {

namespace {

void write_range(JsonWriter& json, std::string_view name, const std::optional<Range>& range) {
  json.key(name);
  if (!range) {
    json.null();
    return;
  }
  json.begin_array().value(range->low).value(range->high).end_array();
}

std::vector<std::string> words_of(const ComparisonReport& report,
                                  const std::vector<std::size_t>& rows) {
  std::vector<std::string> words;
  for (std::size_t i : rows) {
    const ComparisonRow& row = report.rows[i];
    words.push_back(fmt::format("{}: {} → {}", row.name, duration_text(row.before_ns.value),
                                duration_text(row.after_ns.value)));
  }
  return words;
}

void write_estimate(JsonWriter& json, const std::string& name,
                    const std::optional<Estimate>& estimate) {
  json.key(name);
  estimate ? json.value(estimate->value) : json.null();
  bool time = name.ends_with("_ns");  // a unit ends its name
  std::string range = time ? name.substr(0, name.size() - 3) + "_range_ns" : name + "_range";
  write_range(json, range, estimate ? range_of(*estimate) : std::nullopt);
}

}  // namespace

std::string to_json(const ComparisonReport& report) {
  JsonWriter json;
  json.begin_object().member("schema", "mfu.compare/1");
  json.member("before", without_secrets(report.before));
  json.member("after", without_secrets(report.after));
  json.member("by", report.by_step ? "step" : "window");
  json.member("unit", report.unit);
  json.key("verdict");
  report.verdict ? json.value(name_of(*report.verdict)) : json.null();
  json.member("gain_fraction", report.gain_fraction);
  json.key("gain_low_fraction");
  report.gain_range ? json.value(report.gain_range->low) : json.null();
  json.key("gain_high_fraction");
  report.gain_range ? json.value(report.gain_range->high) : json.null();
  json.member("slower_fraction", report.slower_fraction());
  write_estimate(json, "before_ns", report.before_ns);
  write_estimate(json, "after_ns", report.after_ns);
  write_estimate(json, "mfu_before", report.before_mfu);
  write_estimate(json, "mfu_after", report.after_mfu);
  write_estimate(json, "tokens_per_s_before", report.before_tokens_per_s);
  write_estimate(json, "tokens_per_s_after", report.after_tokens_per_s);
  json.objects("ledger", report.rows, [&](const ComparisonRow& row) {
    json.member("line", row.name);
    write_estimate(json, "before_ns", row.before_ns);
    write_estimate(json, "after_ns", row.after_ns);
    json.member("before_fraction", row.before_fraction);
    json.member("after_fraction", row.after_fraction);
  });
  json.strings("better", words_of(report, report.less));
  json.strings("worse", words_of(report, report.more));
  json.member("fail_over", report.fail_over);
  json.member("failed", report.failed);
  write_notes(json, report.notes, Voice::command_line);
  return json.end_object().text();
}

}  // namespace mfu
