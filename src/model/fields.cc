#include "model/fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/suggest.h"
#include "base/text.h"

namespace mfu {
namespace {

constexpr std::uint64_t kMostCount = 1ull << 40;
constexpr std::uint64_t kMostSize = 1ull << 31;
constexpr std::uint64_t kMostLayers = 100'000;
// The sections in which an override without a section is looked for if the top level does not have
// the field.
constexpr std::string_view kSections[] = {"text_config",   "llm_config",  "language_config",
                                          "vision_config", "attn_config", "ffn_config",
                                          "audio_config"};

std::string describe(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::null:
      return "null";
    case Json::Kind::boolean:
      return *value.boolean() ? "true" : "false";
    case Json::Kind::number:
      return printable(value.raw_number(), 40);
    case Json::Kind::string:
      return fmt::format("\"{}\"", printable(*value.string(), 40));
    case Json::Kind::array:
      return "a list";
    case Json::Kind::object:
      return "an object";
  }
  return "?";
}

std::string route(const Json& document, std::string_view key) {
  if (key.find('.') != std::string_view::npos || document.find(key) != nullptr) {
    return std::string(key);
  }
  for (std::string_view section : kSections) {
    const Json* nested = document.find(section);
    if (nested != nullptr && nested->find(key) != nullptr)
      return fmt::format("{}.{}", section, key);
  }
  const Json* text = document.find("text_config");
  return text != nullptr ? fmt::format("text_config.{}", key) : std::string(key);
}

}  // namespace

Result<Fields> Fields::of(const Json& document, std::string_view file,
                          const std::vector<std::pair<std::string, std::string>>& overrides) {
  if (!document.is(Json::Kind::object)) {
    return fail(ErrorCode::malformed, fmt::format("{}: not a JSON object", file));
  }
  Fields fields;
  fields.object_ = &document;
  fields.shared_ = std::make_shared<Shared>();
  fields.shared_->file = file;
  fields.shared_->document = &document;
  for (const auto& [key, value] : overrides) {
    auto parsed = parse_json(value, key);
    Json content =
        parsed ? std::move(parsed).value() : MFU_TRY(parse_json(json_quoted(value), key));
    std::string path = route(document, key);
    fields.shared_->unread.insert(path);
    fields.shared_->overrides[std::move(path)] = std::move(content);
  }
  return fields;
}

const Json* Fields::find(std::string_view name) const {
  if (!shared_->overrides.empty()) {
    std::string full = path_ + std::string(name);
    auto override_at = shared_->overrides.find(full);
    if (override_at != shared_->overrides.end()) {
      shared_->unread.erase(full);
      return &override_at->second;
    }
    shared_->asked.insert(std::move(full));
  }
  const Json* value = object_ != nullptr ? object_->find(name) : nullptr;
  return value;
}

const Json* Fields::find(Names names, std::string_view* found) const {
  for (std::string_view name : names) {
    const Json* value = find(name);
    if (value == nullptr || value->is(Json::Kind::null)) continue;
    *found = name;
    return value;
  }
  *found = *names.begin();
  return nullptr;
}

void Fields::complain(std::string_view name, std::string_view what) const {
  if (shared_->wrong.empty()) {
    shared_->wrong = fmt::format("{}: {}{}: {}", shared_->file, path_, printable(name), what);
  }
}

void Fields::lacks(std::string_view name) const {
  std::string full = path_ + std::string(name);
  auto& missing = shared_->missing;
  if (std::find(missing.begin(), missing.end(), full) == missing.end()) missing.push_back(full);
}

Result<void> Fields::problem() const {
  if (!shared_->wrong.empty()) return fail(ErrorCode::malformed, shared_->wrong);
  if (shared_->missing.empty()) return {};
  return fail(ErrorCode::malformed,
              fmt::format("{}: lacks {}", shared_->file, fmt::join(shared_->missing, ", ")));
}

std::optional<std::uint64_t> Fields::maybe(Names names) const {
  std::string_view name;
  const Json* value = find(names, &name);
  if (value == nullptr) return std::nullopt;
  std::optional<std::uint64_t> count = value->count();
  if (!count || *count > kMostCount) {
    complain(name, fmt::format("{} is not a whole number from 0 to 2^40", describe(*value)));
    return std::nullopt;
  }
  return count;
}

std::uint64_t Fields::count(Names names, std::uint64_t fallback) const {
  return maybe(names).value_or(fallback);
}

std::uint64_t Fields::count(Names names) const {
  std::string_view name;
  if (find(names, &name) == nullptr) lacks(name);
  return maybe(names).value_or(0);
}

void Fields::note_default(Names names, std::uint64_t fallback) const {
  constexpr std::string_view kVital[] = {"hidden_size", "num_hidden_layers", "num_attention_heads",
                                         "intermediate_size", "vocab_size"};
  std::string_view name = *names.begin();
  std::string_view found;
  if (std::find(std::begin(kVital), std::end(kVital), name) == std::end(kVital)) return;
  if (find(names, &found) != nullptr) return;
  // Classes that take the width of their MLP from other fields.
  if (name == "intermediate_size" && (has("block_ff_dim") || has("moe_intermediate_size"))) return;
  Note note{"default_of_class",
            {{"field", std::string(name)}, {"value", static_cast<std::int64_t>(fallback)}}};
  if (std::find(shared_->defaults.begin(), shared_->defaults.end(), note) ==
      shared_->defaults.end()) {
    shared_->defaults.push_back(std::move(note));
  }
}

std::uint64_t Fields::layers(Names names, std::uint64_t fallback) const {
  note_default(names, fallback);
  std::uint64_t layers = count(names, fallback);
  std::string_view name;
  find(names, &name);
  // There may be 0 experts and 0 prediction layers, but a model with 0 layers is a mistake.
  bool vital = fallback != 0 && (name == "depth" || name.find("layer") != std::string_view::npos);
  if (layers == 0 && vital) complain(name, "0: a model has at least one layer");
  if (layers <= kMostLayers) return layers;
  complain(name, fmt::format("{} is more than {}", layers, kMostLayers));
  return 0;
}

std::uint64_t Fields::head_width(std::uint64_t hidden, std::uint64_t heads) const {
  if (hidden % heads != 0 && shared_->wrong.empty()) {
    shared_->wrong = fmt::format("{}: {}the width {} is not a multiple of its {} heads",
                                 shared_->file, path_, hidden, heads);
  }
  return std::max<std::uint64_t>(hidden / heads, 1);
}

Result<std::vector<Note>> Fields::unread_overrides() const {
  std::vector<Note> notes;
  std::vector<std::string> asked(shared_->asked.begin(), shared_->asked.end());
  for (const std::string& key : shared_->unread) {
    const Json* at = shared_->document;
    for (std::string_view part : split(key, '.')) at = at != nullptr ? at->find(part) : nullptr;
    std::vector<std::string> near = closest(key, asked, 1);
    // Most likely a typing error. A name that differs more may be a field that other programs use.
    bool slip =
        !near.empty() && near[0].size() <= key.size() + 2 && key.size() <= near[0].size() + 2;
    if (at == nullptr && slip) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: '{}' is set, but no field of that name is read: did you mean "
                              "'{}'?",
                              shared_->file, printable(key, 80), near[0]));
    }
    notes.push_back({"set_for_nothing", {{"field", printable(key, 80)}}});
  }
  return notes;
}

std::uint64_t Fields::size(Names names, std::uint64_t fallback) const {
  note_default(names, fallback);
  std::uint64_t size = count(names, fallback);
  if (size >= 1 && size <= kMostSize) return size;
  std::string_view name;
  find(names, &name);
  complain(name, fmt::format("{} is not from 1 to 2^31", size));
  return 1;
}

double Fields::number(Names names, double fallback) const {
  std::string_view name;
  const Json* value = find(names, &name);
  if (value == nullptr) return fallback;
  std::optional<double> number = value->number();
  if (number && *number >= -1e12 && *number <= 1e12) return *number;
  complain(name, fmt::format("{} is not a number", describe(*value)));
  return fallback;
}

bool Fields::flag(Names names, bool fallback) const {
  std::string_view name;
  const Json* value = find(names, &name);
  if (value == nullptr) return fallback;
  std::optional<bool> truth = value->boolean();
  if (!truth && value->count()) truth = *value->count() != 0;
  if (!truth) complain(name, fmt::format("{} is not true or false", describe(*value)));
  return truth.value_or(fallback);
}

std::string Fields::text(Names names, std::string_view fallback) const {
  std::string_view name;
  const Json* value = find(names, &name);
  if (value == nullptr) return std::string(fallback);
  if (const std::string* text = value->string()) return *text;
  complain(name, fmt::format("{} is not a string", describe(*value)));
  return std::string(fallback);
}

std::vector<std::string> Fields::texts(Names names) const {
  std::vector<std::string> texts;
  std::string_view name;
  const Json* value = find(names, &name);
  if (value == nullptr) return texts;
  if (!value->is(Json::Kind::array)) complain(name, "not a list");
  for (const Json& element : value->elements()) {
    const std::string* text = element.string();
    if (text == nullptr) {
      complain(name, fmt::format("holds {}, not a string", describe(element)));
      return {};
    }
    texts.push_back(*text);
  }
  return texts;
}

std::vector<std::uint64_t> Fields::counts(Names names) const {
  std::vector<std::uint64_t> counts;
  std::string_view name;
  const Json* value = find(names, &name);
  if (value == nullptr) return counts;
  if (!value->is(Json::Kind::array)) complain(name, "not a list");
  for (const Json& element : value->elements()) {
    std::optional<std::uint64_t> count = element.count();
    if (!count || *count > kMostSize) {
      complain(name, fmt::format("holds {}, not a whole number", describe(element)));
      return {};
    }
    counts.push_back(*count);
  }
  return counts;
}

bool Fields::has(std::string_view name) const {
  const Json* value = find(name);
  return value != nullptr && !value->is(Json::Kind::null);
}

bool Fields::is_null(std::string_view name) const {
  const Json* value = find(name);
  return value != nullptr && value->is(Json::Kind::null);
}

bool Fields::is_count(std::string_view name) const {
  const Json* value = find(name);
  return value != nullptr && value->count().has_value();
}

Fields Fields::section(Names names) const {
  std::string_view name;
  const Json* value = find(names, &name);
  Fields nested = *this;
  nested.path_ = path_ + std::string(name) + ".";
  nested.object_ = nullptr;
  if (value == nullptr) return nested;
  if (!value->is(Json::Kind::object)) {
    complain(name, fmt::format("{} is not an object", describe(*value)));
    return nested;
  }
  nested.object_ = value;
  return nested;
}

void Fields::copy_down(std::string_view section, std::string_view name, bool fallback) const {
  std::string full = fmt::format("{}{}.{}", path_, section, name);
  if (shared_->overrides.contains(full)) return;
  const Json* outer = find(name);
  if (outer != nullptr && !outer->is(Json::Kind::null)) {
    shared_->overrides[full] = *outer;
    return;
  }
  shared_->overrides[full] = parse_json(fallback ? "true" : "false", full).value();
}

std::size_t Fields::members(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return 0;
  return value->is(Json::Kind::object) ? value->members().size() : value->elements().size();
}

}  // namespace mfu
