// Reads a config.json by field, with the defaults of the Hugging Face class. Errors are collected
// instead of returned, so that a family file reads like a table. The caller of the family asks
// problem() once at the end.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "mfu/result.h"

namespace mfu {

class Fields {
 public:
  // the first name that the config has is used
  using Names = std::initializer_list<std::string_view>;

  // `document` must outlive this object and all its sections. An override is a dotted path and a
  // JSON value; a bare word is a string.
  static Result<Fields> of(const Json& document, std::string_view file,
                           const std::vector<std::pair<std::string, std::string>>& overrides);

  // A whole number from 0 to 2^40. null counts as absent.
  std::uint64_t count(Names names, std::uint64_t fallback) const;
  std::uint64_t count(Names names) const;  // fails if it is absent
  std::optional<std::uint64_t> maybe(Names names) const;
  // A number of layers or experts, at most 100 000. Layers that make up the model must be at least
  // 1.
  std::uint64_t layers(Names names, std::uint64_t fallback) const;
  // A size by which is divided or multiplied: at least 1, at most 2^31.
  std::uint64_t size(Names names, std::uint64_t fallback) const;
  // hidden / heads if that is a whole number, otherwise a complaint.
  std::uint64_t head_width(std::uint64_t hidden, std::uint64_t heads) const;
  double number(Names names, double fallback) const;
  bool flag(Names names, bool fallback) const;
  std::string text(Names names, std::string_view fallback) const;
  std::vector<std::string> texts(Names names) const;     // empty if absent
  std::vector<std::uint64_t> counts(Names names) const;  // empty if absent
  bool has(std::string_view name) const;                 // it exists and is not null
  bool is_null(std::string_view name) const;             // it exists and is null
  bool is_count(std::string_view name) const;            // a whole number, not "auto"
  Fields section(Names names) const;                     // an object; empty if absent
  std::size_t members(std::string_view name) const;      // number of members of an object or array

  // In that section the field has the value of the outer object, or else `fallback`, whatever the
  // section says.
  void copy_down(std::string_view section, std::string_view name, bool fallback) const;

  void complain(std::string_view name, std::string_view what) const;
  void lacks(std::string_view name) const;
  // Important sizes that the config does not have, so that the class's defaults were used.
  const std::vector<Note>& defaults_taken() const { return shared_->defaults; }
  // The first thing that was wrong, or a list of everything that was missing.
  Result<void> problem() const;

  // Overrides that nothing read. If a field with a similar name was read and the config has no
  // field of that name, this is an error. Otherwise there is a sentence for each.
  Result<std::vector<Note>> unread_overrides() const;

  const std::string& file() const { return shared_->file; }

 private:
  struct Shared {
    std::string file;
    const Json* document = nullptr;
    std::map<std::string, Json, std::less<>> overrides;
    std::set<std::string, std::less<>> unread;  // overrides that were given and not read yet
    // fields that were read; kept only if there are overrides
    std::set<std::string, std::less<>> asked;
    std::string wrong;
    std::vector<std::string> missing;
    std::vector<Note> defaults;
  };
  void note_default(Names names, std::uint64_t fallback) const;
  const Json* find(Names names, std::string_view* found) const;
  const Json* find(std::string_view name) const;

  const Json* object_ = nullptr;
  std::string path_;  // "text_config."
  std::shared_ptr<Shared> shared_;
};

}  // namespace mfu
