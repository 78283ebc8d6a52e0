#include "base/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace mfu {

namespace {

class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  bool at_end() const { return at_ == text_.size(); }

  bool skip_blank_line() {
    std::size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view line = trim(text_.substr(at_, end - at_));
    if (!line.empty() && line[0] != '#') return false;
    at_ = std::min(end + 1, text_.size());
    ++line_;
    return true;
  }

  Result<CsvRow> row(std::size_t width) {
    CsvRow row{line_, {}};
    row.cells.reserve(width);
    while (true) {
      row.cells.push_back(MFU_TRY(cell()));
      if (at_end()) return row;
      char separator = text_[at_++];
      if (separator == '\n') {
        ++line_;
        return row;
      }
    }
  }

 private:
  Result<std::string> cell() {
    if (!at_end() && text_[at_] == '"') return quoted_cell();
    if (line_end_ < at_ || at_ == 0) line_end_ = std::min(text_.find('\n', at_), text_.size());
    std::string_view rest = text_.substr(at_, line_end_ - at_);
    std::string_view cell = rest.substr(0, rest.find(','));
    at_ += cell.size();
    return std::string(trim(cell));
  }

  Result<std::string> quoted_cell() {
    std::size_t opened = line_;
    std::string cell;
    ++at_;
    while (true) {
      std::size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) {
        return fail(ErrorCode::malformed,
                    fmt::format("{}:{}: the quote that opens here is never closed", name_, opened));
      }
      std::string_view piece = text_.substr(at_, quote - at_);
      cell += piece;
      for (std::size_t at = 0; (at = piece.find('\n', at)) != std::string_view::npos; ++at) ++line_;
      at_ = quote + 1;
      if (at_end() || text_[at_] != '"') break;
      cell += '"';
      ++at_;
    }
    if (!at_end() && text_[at_] == '\r') ++at_;
    if (at_end() || text_[at_] == ',' || text_[at_] == '\n') return cell;
    return fail(ErrorCode::malformed,
                fmt::format("{}:{}: text follows a closing quote; a quote inside a quoted cell is "
                            "written twice",
                            name_, line_));
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t line_end_ = 0;  // of the line that was read last
};

}  // namespace

Result<CsvTable> parse_csv(std::string_view text, std::string_view name) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  CsvReader reader(text, name);
  CsvTable table;
  while (!reader.at_end()) {
    if (reader.skip_blank_line()) continue;
    CsvRow row = MFU_TRY(reader.row(table.columns.size()));
    if (table.columns.empty()) {
      table.columns = std::move(row.cells);
    } else if (row.cells.size() != table.columns.size()) {
      return fail(ErrorCode::malformed,
                  fmt::format("{}:{}: {} cells where the header has {} columns ({})", name,
                              row.line, row.cells.size(), table.columns.size(),
                              row.cells.size() < table.columns.size()
                                  ? fmt::format("the last is '{}'", printable(row.cells.back(), 40))
                                  : "a comma inside a cell needs quotes around the cell"));
    } else {
      table.rows.push_back(std::move(row));
    }
  }
  if (table.columns.empty()) {
    return fail(ErrorCode::malformed, fmt::format("{}:1: empty; a header line was expected", name));
  }
  return table;
}

}  // namespace mfu
