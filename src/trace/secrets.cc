// Finds credentials in a trace. The reader is told where they are, and no report repeats them.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/secrets.h"
#include "base/text.h"
#include "trace/builder.h"
#include "trace/texts.h"

namespace mfu {
namespace {

constexpr std::size_t kMostPlaces = 16;

void add(TraceCoverage& coverage, std::string_view kind, const std::string& place) {
  std::string line = fmt::format("{} in {}", kind, place);
  std::vector<std::string>& found = coverage.secrets;
  bool known = std::find(found.begin(), found.end(), line) != found.end();
  if (!known && found.size() < kMostPlaces) found.push_back(std::move(line));
}

// A member of the file, with the keys that lead to a value inside it.
using Path = std::vector<std::string_view>;

// Makes a sentence only if there is something to report: nearly all values are harmless.
void look_at(TraceCoverage& coverage, const Path& path, std::string_view value) {
  std::optional<std::string_view> kind = secret_behind(path.back(), value);
  // The form of a value says more than the name in front of it.
  if (std::vector<Secret> forms = find_secrets(value); !forms.empty()) kind = forms[0].kind;
  if (!kind) return;
  std::string place = printable(unescape(path[0]), 60);
  for (std::size_t i = 1; i < path.size(); ++i) place += "." + printable(path[i], 60);
  add(coverage, *kind, "\"" + place + "\"");
}

// Goes as deep as parse_json() does.
void walk(TraceCoverage& coverage, Path& path, const Json& json) {
  if (json.string() != nullptr) look_at(coverage, path, *json.string());
  for (const Json& element : json.elements()) walk(coverage, path, element);
  for (const auto& [key, value] : json.members()) {
    path.push_back(key);
    walk(coverage, path, value);
    path.pop_back();
  }
}

}  // namespace

void find_secrets_in_member(TraceCoverage& coverage, std::string_view name,
                            std::string_view value) {
  Path path{name};
  if (Result<Json> json = parse_json(value, name); json.has_value()) {
    walk(coverage, path, *json);
  } else {
    look_at(coverage, path, value);
  }
}

void hide_secrets_in_texts(Trace& trace) {
  for (const Secret& secret : find_secrets(trace.info.path)) {
    add(trace.coverage, secret.kind, "the file's name");
  }
  trace.info.path = without_secrets(trace.info.path);
  for (std::uint32_t id = 0; id < trace.texts->count(); ++id) {
    for (const Secret& secret : find_secrets(trace.texts->text(id))) {
      trace.texts->blank(id, secret.begin, secret.size);
      add(trace.coverage, secret.kind, "the name, the inputs or the call stack of an event");
    }
  }
  for (const std::string& found : trace.coverage.secrets) {
    trace.coverage.notes.push_back({"carries_credential", {{"what", found}}});
  }
}

}  // namespace mfu
