// Reads and writes JSON that is small enough to hold, such as configs and caches. The reader
// accepts a bare Infinity and NaN, which real files have, but no comments. Profiler traces have
// their own reader in trace/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mfu/result.h"
#include "mfu/units.h"

namespace mfu {

class Json {
 public:
  enum class Kind { null, boolean, number, string, array, object };
  using Member = std::pair<std::string, Json>;

  Json() = default;  // null

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }

  // The value, or none if it is of another kind. A count is a whole number of 0 or more; it may be
  // written as 1e9 or 8.0.
  std::optional<bool> boolean() const;
  std::optional<double> number() const;
  std::optional<std::uint64_t> count() const;
  const std::string* string() const;  // null if it is no string
  const std::string& raw_number() const { return text_; }

  const std::vector<Json>& elements() const { return elements_; }
  const std::vector<Member>& members() const { return members_; }
  // The last member of that name. Null if there is none, or if this is no object.
  const Json* find(std::string_view name) const;
  // The value of a member, if it exists and is of that kind.
  std::string text_at(std::string_view name, std::string_view fallback = "") const;
  std::optional<double> number_at(std::string_view name) const;
  std::optional<std::uint64_t> count_at(std::string_view name) const;

 private:
  friend class JsonReader;
  Kind kind_ = Kind::null;
  bool truth_ = false;
  std::string text_;  // text of a string, or the digits of a number as written
  std::vector<Json> elements_;
  std::vector<Member> members_;
};

// Fails with `malformed`, naming `name`, line and column. Depth and number of values are bounded.
Result<Json> parse_json(std::string_view text, std::string_view name);

// Writes one document and takes care of commas and escapes. Bytes that are not UTF-8 become U+FFFD,
// and numbers that are not finite become null.
class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(std::uint64_t count);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(FlopCount count);
  JsonWriter& value(bool truth);
  JsonWriter& null();
  template <typename T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : null();
  }
  template <typename T>
  JsonWriter& member(std::string_view name, const T& content) {
    return key(name).value(content);
  }
  // Writes a text. An empty text means that it is not known and becomes null.
  JsonWriter& known(std::string_view name, std::string_view text) {
    key(name);
    return text.empty() ? null() : value(text);
  }
  JsonWriter& strings(std::string_view name, const std::vector<std::string>& texts);
  // Writes an array with one object per row. `write` adds the members of each.
  template <typename Rows, typename Write>
  JsonWriter& objects(std::string_view name, const Rows& rows, Write write) {
    key(name).begin_array();
    for (const auto& row : rows) {
      begin_object();
      write(row);
      end_object();
    }
    return end_array();
  }

  const std::string& text() const { return text_; }

 private:
  void separate();
  std::string text_;
  bool first_ = true;
};

// A string literal of JSON, quotes included.
std::string json_quoted(std::string_view text);

// The shortest digits that read back as the same double. Whole numbers below 1e18 have no point and
// no exponent.
std::string json_number(double number);

}  // namespace mfu
