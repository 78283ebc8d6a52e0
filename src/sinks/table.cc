#include "sinks/table.h"

#include <algorithm>

#include "base/text.h"
#include "mfu/result.h"

namespace mfu {

namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 16;  // width of the wrapped column on a very narrow terminal

std::vector<std::string> lines_of(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (std::string_view word : split(text, ' ')) {
    std::string& line = lines.back();
    bool fits = line.empty() || display_width(line) + 1 + display_width(word) <= width;
    if (!fits) {
      lines.emplace_back(word);
    } else {
      if (!line.empty()) line += ' ';
      line += word;
    }
  }
  return lines;
}

std::string padded(std::string_view text, std::size_t width, Align align) {
  std::string blanks(width - std::min(width, display_width(text)), ' ');
  return align == Align::left ? std::string(text) + blanks : blanks + std::string(text);
}

constexpr const char* kInkCodes[] = {"\x1b[1m",  "\x1b[2m",  "\x1b[31m",
                                     "\x1b[32m", "\x1b[33m", "\x1b[36m"};
constexpr std::string_view kInkEnd = "\x1b[0m";

// Bytes of an escape sequence that inked() wrote at the beginning of the text; 0 if there is none.
std::size_t ink_length(std::string_view text) {
  if (text.starts_with(kInkEnd)) return kInkEnd.size();
  for (std::string_view code : kInkCodes) {
    if (text.starts_with(code)) return code.size();
  }
  return 0;
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  MFU_ASSERT(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(const TextStyle& style) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = display_width(columns_[i].header);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
  }
  std::size_t before = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) before += widths[i] + kGap;
  bool squeezed = before + std::min(widths.back(), kNarrowest) > style.width;
  std::size_t room = style.width > before + kNarrowest ? style.width - before : kNarrowest;
  // There is no room next to the other columns, so the last one goes below them.
  if (squeezed) room = std::max(style.width, kNarrowest + kGap) - kGap;
  widths.back() = std::min(widths.back(), room);

  std::string text;
  auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line += std::string(kGap, ' ');
      line += padded(cells[i], widths[i], columns_[i].align);
    }
    return without_trailing_blanks(line);
  };
  auto add_below = [&](const std::vector<std::string>& cells) {
    std::vector<std::string> others(cells.begin(), cells.end() - 1);
    std::string whole = add_line(others) + '\n';
    if (cells.back().empty()) return whole;
    for (const std::string& line : lines_of(cells.back(), room)) {
      whole += std::string(kGap, ' ') + line + '\n';
    }
    return whole;
  };
  std::vector<std::string> headers;
  for (const TableColumn& column : columns_) headers.push_back(column.header);
  if (squeezed && columns_.size() > 1) {
    text += inked(add_line({headers.begin(), headers.end() - 1}), Ink::bold, style) + '\n';
    for (const auto& row : rows_) text += add_below(row);
    return text;
  }
  text += inked(add_line(headers), Ink::bold, style) + '\n';
  for (const auto& row : rows_) {
    std::vector<std::string> cells = row;
    for (const std::string& line : lines_of(row.back(), widths.back())) {
      cells.back() = line;
      text += add_line(cells) + '\n';
      std::fill(cells.begin(), cells.end(), "");
    }
  }
  return text;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string whole;
  for (const std::string& line : lines_of(text, std::max(width, indent + kNarrowest) - indent)) {
    if (!whole.empty()) whole += '\n' + std::string(indent, ' ');
    whole += line;
  }
  return whole;
}

std::string paragraph(std::string_view label, const std::string& text, const TextStyle& style) {
  return inked(label, Ink::dim, style) + " " +
         wrapped(text, style.width, display_width(label) + 1) + "\n";
}

std::string inked(std::string_view text, Ink ink, const TextStyle& style) {
  if (!style.color || text.empty()) return std::string(text);
  return kInkCodes[static_cast<int>(ink)] + std::string(text) + std::string(kInkEnd);
}

std::string terminal_text(std::string_view text, const TextStyle& style) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    std::size_t run = text.find_first_of("\n\t\x1b");
    safe += printable(text.substr(0, run), std::string::npos);
    if (run == std::string_view::npos) break;
    text.remove_prefix(run);
    std::size_t ink = style.color ? ink_length(text) : 0;
    safe += ink > 0 ? text.substr(0, ink) : text[0] == '\x1b' ? "?" : text.substr(0, 1);
    text.remove_prefix(std::max<std::size_t>(ink, 1));
  }
  return safe;
}

}  // namespace mfu
