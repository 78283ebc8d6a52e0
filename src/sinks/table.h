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
  // Contract: as many cells as columns.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string text(const TextStyle& style) const;

 private:
  std::vector<TableColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Words of `text` in lines of at most `width` columns; every line but the first starts with
// `indent` blanks.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

// A dim label and its text behind it, wrapped under the text.
std::string paragraph(std::string_view label, const std::string& text, const TextStyle& style);

// Text that may hold names from files, made safe for a terminal: control characters, characters
// that turn the direction of text, and bytes that are not UTF-8 become '?'. Line ends and tabs
// stay, and where the style has colour, what inked() wrote.
std::string terminal_text(std::string_view text, const TextStyle& style);

enum class Ink { bold, dim, red, green, yellow, cyan };
// The text in that ink where the style has colour, else as it is.
std::string inked(std::string_view text, Ink ink, const TextStyle& style);

// mfu.config/1
std::string to_json(const std::vector<SettingKey>& keys, const Settings& settings,
                    const std::string& path);

}  // namespace mfu
