#include "base/json.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace mfu {

std::optional<bool> Json::boolean() const {
  return is(Kind::boolean) ? std::optional(truth_) : std::nullopt;
}

std::optional<double> Json::number() const {
  return is(Kind::number) ? parse_number(text_) : std::nullopt;
}

std::optional<std::uint64_t> Json::count() const {
  if (!is(Kind::number)) return std::nullopt;
  if (auto whole = parse_count(text_)) return whole;
  auto value = parse_number(text_);
  constexpr double kExact = 9007199254740992.0;  // 2^53: whole numbers up to here are exact
  if (!value || *value < 0 || *value > kExact || *value != std::floor(*value)) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

const std::string* Json::string() const {
  return is(Kind::string) ? &text_ : nullptr;
}

const Json* Json::find(std::string_view name) const {
  for (auto member = members_.rbegin(); member != members_.rend(); ++member) {
    if (member->first == name) return &member->second;
  }
  return nullptr;
}

std::string Json::text_at(std::string_view name, std::string_view fallback) const {
  const Json* member = find(name);
  const std::string* text = member != nullptr ? member->string() : nullptr;
  return text != nullptr ? *text : std::string(fallback);
}

std::optional<double> Json::number_at(std::string_view name) const {
  const Json* member = find(name);
  return member != nullptr ? member->number() : std::nullopt;
}

std::optional<std::uint64_t> Json::count_at(std::string_view name) const {
  const Json* member = find(name);
  return member != nullptr ? member->count() : std::nullopt;
}

std::string json_number(double number) {
  if (!std::isfinite(number)) return "null";
  if (number == std::floor(number) && std::fabs(number) < 1e18) {
    return fmt::format("{:.0f}", number == 0 ? 0.0 : number);
  }
  return fmt::format("{}", number);
}

namespace {

bool is_plain(char letter) {
  return letter >= 0x20 && letter < 0x7F && letter != '"' && letter != '\\';
}

std::string escaped(unsigned char letter) {
  switch (letter) {
    case '"':
    case '\\':
      return {'\\', static_cast<char>(letter)};
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    default:
      return letter < 0x80 ? fmt::format("\\u{:04x}", static_cast<unsigned>(letter)) : "\\ufffd";
  }
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string quoted;
  quoted.reserve(text.size() + 2);
  quoted += '"';
  while (!text.empty()) {
    std::size_t run = 0;  // characters that need no escape; nearly always all of them
    while (run < text.size() && is_plain(text[run])) ++run;
    quoted += text.substr(0, run);
    text.remove_prefix(run);
    if (text.empty()) break;
    std::size_t length = utf8_sequence_length(text);
    std::uint32_t code = length > 1 ? utf8_code(text.substr(0, length)) : 0;
    if (length <= 1) {
      quoted += escaped(static_cast<unsigned char>(text[0]));
    } else if (is_harmless(code)) {
      quoted += text.substr(0, length);
    } else {
      // Escaped, it reads back the same but cannot change a terminal that shows it.
      quoted += fmt::format("\\u{:04x}", code);
    }
    text.remove_prefix(length > 1 ? length : 1);
  }
  quoted += '"';
  return quoted;
}

void JsonWriter::separate() {
  if (!first_) text_ += ',';
  first_ = false;
}

JsonWriter& JsonWriter::begin_object() {
  separate();
  text_ += '{';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  text_ += '}';
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  separate();
  text_ += '[';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  text_ += ']';
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  text_ += json_quoted(name) + ':';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  text_ += json_quoted(text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  separate();
  text_ += json_number(number);
  return *this;
}

JsonWriter& JsonWriter::value(std::uint64_t count) {
  separate();
  text_ += std::to_string(count);
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t number) {
  separate();
  text_ += std::to_string(number);
  return *this;
}

JsonWriter& JsonWriter::value(FlopCount count) {
  separate();
  text_ += count.to_string();
  return *this;
}

JsonWriter& JsonWriter::value(bool truth) {
  separate();
  text_ += truth ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::null() {
  separate();
  text_ += "null";
  return *this;
}

JsonWriter& JsonWriter::strings(std::string_view name, const std::vector<std::string>& texts) {
  key(name).begin_array();
  for (const std::string& text : texts) value(text);
  return end_array();
}

}  // namespace mfu
