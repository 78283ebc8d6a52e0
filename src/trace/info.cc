// Reads what a trace says about itself outside its events.
#include <algorithm>

#include "base/json.h"
#include "base/secrets.h"
#include "base/text.h"
#include "trace/builder.h"
#include "trace/number.h"
#include "trace/texts.h"

namespace mfu {
namespace {

std::string safe_text(std::string_view text, std::size_t most) {
  return without_secrets(printable(text, most));
}

std::optional<std::int64_t> integer_of(const Json* json) {
  if (json == nullptr) return std::nullopt;
  if (json->is(Json::Kind::number)) return parse_id(json->raw_number());
  return json->string() != nullptr ? parse_id(*json->string()) : std::nullopt;
}

std::string text_of(const Json* json) {
  return json != nullptr && json->string() != nullptr ? safe_text(*json->string(), 4096) : "";
}

// Writes "[0, 1, 2]", as record_param_comms writes the ranks of a group.
std::string list_of(const Json* json) {
  std::vector<std::string> parts;
  if (json == nullptr) return "";
  if (json->string() != nullptr) return safe_text(*json->string(), 4096);
  for (const Json& element : json->elements()) parts.push_back(printable(element.raw_number(), 32));
  return "[" + join(parts, ", ") + "]";
}

void read_devices(TraceInfo& info, const Json& list) {
  for (const Json& device : list.elements()) {
    std::optional<std::int64_t> multiprocessors = integer_of(device.find("numSms"));
    info.devices.push_back({.id = integer_of(device.find("id")).value_or(0),
                            .name = text_of(device.find("name")),
                            .memory_bytes = integer_of(device.find("totalGlobalMem")),
                            .compute_major = integer_of(device.find("computeMajor")),
                            .compute_minor = integer_of(device.find("computeMinor")),
                            .multiprocessors = multiprocessors});
  }
}

void read_distributed(TraceInfo& info, const Json& distributed) {
  info.backend = text_of(distributed.find("backend"));
  info.rank = integer_of(distributed.find("rank"));
  info.world_size = integer_of(distributed.find("world_size"));
  const Json* groups = distributed.find("pg_config");
  if (groups == nullptr) return;
  for (const Json& group : groups->elements()) {
    info.groups.push_back({.name = text_of(group.find("pg_name")),
                           .description = text_of(group.find("pg_desc")),
                           .ranks = list_of(group.find("ranks"))});
  }
}

}  // namespace

void read_info_member(TraceInfo& info, std::string_view name, std::string_view value) {
  constexpr std::size_t kMostOthers = 64, kMostText = 256;
  bool structured = name == "deviceProperties" || name == "distributedInfo";
  if (structured) {
    Result<Json> json = parse_json(value, name);
    if (!json.has_value()) return;
    if (name == "deviceProperties") {
      read_devices(info, *json);
    } else {
      read_distributed(info, *json);
    }
    return;
  }
  std::string_view inside = value;
  if (value.size() >= 2 && value.front() == '"') inside = value.substr(1, value.size() - 2);
  if (name == "traceName") {
    info.trace_name = safe_text(unescape(inside), kMostText);
  } else if (name == "schemaVersion") {
    info.schema_version = parse_id(value);
  } else if (name == "baseTimeNanoseconds") {
    info.base_time_ns = parse_id(value);
  } else if (info.other.size() < kMostOthers && value.size() <= kMostText && value[0] != '{' &&
             value[0] != '[') {
    std::string text = printable(unescape(inside), kMostText);
    if (secret_behind(name, text)) text = "[hidden]";
    info.other.emplace_back(printable(unescape(name)), without_secrets(text));
  }
}

}  // namespace mfu
