// A table for people: columns as wide as they need, the last one wrapped to the width there is.
//
//   mfu::Table table({{"type"}, {"dense", mfu::Align::right}, {"source"}});
//   table.add({"bf16", "989.4", "H100 datasheet"});
//   std::fputs(table.text({.width = 80}).c_str(), stdout);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "mfu/sink.h"

namespace mfu {

enum class Align { left, right };

struct TableColumn {
  std::string header;
  Align align = Align::left;
};

class Table {
 public:
  explicit Table(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}
  // The caller passes as many cells as there are columns.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string text(const TextStyle& style) const;

 private:
  std::vector<TableColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Breaks `text` into lines of at most `width` columns. Every line but the first starts with
// `indent` blanks.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

// A dim label with its text next to it. The text is wrapped under its own beginning.
std::string paragraph(std::string_view label, const std::string& text, const TextStyle& style);

// Makes text with names from files safe for a terminal. Control characters, characters that change
// the direction of text, and bytes that are not UTF-8 become '?'. Line ends and tabs stay, and so
// does what inked() wrote if the style has colour.
std::string terminal_text(std::string_view text, const TextStyle& style);

enum class Ink { bold, dim, red, green, yellow, cyan };
// The text in that ink if the style has colour, otherwise unchanged.
std::string inked(std::string_view text, Ink ink, const TextStyle& style);

// mfu.config/1
std::string to_json(const std::vector<SettingKey>& keys, const Settings& settings,
                    const std::string& path);

}  // namespace mfu
