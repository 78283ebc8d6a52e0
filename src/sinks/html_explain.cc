#include "base/embed.h"
#include "base/json.h"
#include "mfu/sink.h"
#include "sinks/page.h"

MFU_EMBED(mfu_explain_html, MFU_WEB_DIR "/explain.html");
MFU_EMBED(mfu_explain_css, MFU_WEB_DIR "/explain.css");
MFU_EMBED(mfu_explain_js, MFU_WEB_DIR "/explain.js");
MFU_EMBED(mfu_explain_timeline_js, MFU_WEB_DIR "/explain_timeline.js");
MFU_EMBED(mfu_explain_start_js, MFU_WEB_DIR "/explain_start.js");

namespace mfu {

namespace {

// Spans are written as columns of numbers, which take a third of the bytes of objects.
template <typename Value>
void write_column(JsonWriter& json, std::string_view name, const RankAttribution& rank,
                  Value value) {
  json.key(name).begin_array();
  std::int64_t lane = 0;
  std::int64_t names_before = 0;
  for (const LaneTimeline& each : rank.timeline) {
    for (const LaneSpan& span : each.spans) json.value(value(lane, names_before, each, span));
    names_before += static_cast<std::int64_t>(each.names.size());
    ++lane;
  }
  json.end_array();
}

bool is_host(const LaneTimeline& lane) {
  return lane.label.starts_with("host");
}

void write_timeline(JsonWriter& json, const RankAttribution& rank) {
  using Integer = std::int64_t;
  json.begin_object();
  json.key("lanes").begin_array();
  std::uint64_t joined = 0;
  for (const LaneTimeline& lane : rank.timeline) {
    json.begin_object();
    json.member("label", lane.label);
    json.member("group", is_host(lane) ? "host" : "device");
    json.end_object();
    for (const LaneSpan& span : lane.spans) joined += span.events - 1;
  }
  json.end_array();
  json.key("names").begin_array();
  for (const LaneTimeline& lane : rank.timeline) {
    for (const std::string& name : lane.names) json.value(name);
  }
  json.end_array();
  write_column(json, "lane", rank, [](Integer lane, Integer, auto&, auto&) { return lane; });
  write_column(json, "start_ns", rank, [&](Integer, Integer, auto&, const LaneSpan& span) {
    return span.start_ns - rank.window.start_ns;
  });
  write_column(json, "duration_ns", rank, [](Integer, Integer, auto&, const LaneSpan& span) {
    return span.end_ns - span.start_ns;
  });
  write_column(json, "name", rank, [](Integer, Integer before, auto&, const LaneSpan& span) {
    return before + static_cast<Integer>(span.name);
  });
  write_column(json, "line", rank,
               [](Integer, Integer, const LaneTimeline& lane, const LaneSpan& span) {
                 return is_host(lane) ? Integer{-1} : static_cast<Integer>(span.line);
               });
  write_column(json, "events", rank, [](Integer, Integer, auto&, const LaneSpan& span) {
    return static_cast<Integer>(span.events);
  });
  json.key("steps").begin_array();
  for (const StepLedger& step : rank.steps) {
    json.begin_object();
    json.member("name", "step " + std::to_string(step.number));
    json.member("start_ns", step.start_ns - rank.window.start_ns);
    json.member("duration_ns", step.end_ns - step.start_ns);
    json.end_object();
  }
  json.end_array();
  json.member("merged", joined);
  json.end_object();
}

std::string title_of(const ExplainReport& report) {
  std::string title = "mfu explain";
  if (report.ranks.size() == 1) title += ": " + report.ranks.front().found.path;
  if (report.ranks.size() > 1) title += ": " + std::to_string(report.ranks.size()) + " ranks";
  return title;
}

}  // namespace

std::string to_html(const ExplainReport& report, Voice voice) {
  JsonWriter timelines;
  timelines.begin_array();
  for (const RankReport& rank : report.ranks) write_timeline(timelines, rank.found);
  timelines.end_array();
  std::string script(mfu_explain_js, mfu_explain_js_end);
  script.append(mfu_explain_timeline_js, mfu_explain_timeline_js_end);
  script.append(mfu_explain_start_js, mfu_explain_start_js_end);
  return assemble_page({
      .skeleton = {mfu_explain_html, mfu_explain_html_end},
      .style = {mfu_explain_css, mfu_explain_css_end},
      .script = std::move(script),
      .title = title_of(report),
      .data = "{\"explain\":" + to_json(report, voice) + ",\"timeline\":" + timelines.text() + "}",
  });
}

}  // namespace mfu
